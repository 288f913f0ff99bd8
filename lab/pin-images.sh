#!/usr/bin/env bash
# Looks up the digests of the images that the Dockerfile names by tag and digest, and writes those of today. Needs a registry, and skopeo,
# crane or docker buildx.
set -euo pipefail
cd "$(dirname "$0")/.."
DOCKERFILE=${DOCKERFILE:-Dockerfile}

digest() {
    if command -v crane >/dev/null; then
        crane digest "$1"
    elif command -v skopeo >/dev/null; then
        # Of the list of all platforms, not of this machine's.
        skopeo inspect --raw "docker://$1" | sha256sum | sed 's/^\([0-9a-f]*\).*/sha256:\1/'
    elif docker buildx version >/dev/null 2>&1; then
        docker buildx imagetools inspect "$1" --format '{{.Manifest.Digest}}'
    else
        echo 'error: install crane, skopeo or docker buildx to look up digests' >&2
        return 1
    fi
}

# Names with a dot or a slash, or with a tag: the rest are scratch and stages of this file.
images=$(sed -n 's/^FROM \([^ @]*:[^ @]*\).*/\1/p' "$DOCKERFILE" | sort -u)
for image in $images; do
    found=$(digest "$image")
    [[ $found =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "error: no digest for $image: $found" >&2; exit 1; }
    sed -i "s|^FROM $image\(@sha256:[0-9a-f]*\)\{0,1\}\( .*\)\{0,1\}\$|FROM $image@$found\2|" "$DOCKERFILE"
    echo "$image@$found"
done
