#!/usr/bin/env bash
# Builds the image that others are built on from dist/, makes a project from a chart, builds its image, and looks what is in it.
# No daemon is needed: buildah works in a chroot. Nothing is pulled.
#
#   make image-proof
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v buildah >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo 'error: buildah is not installed; get it from your distribution, as in: apt-get install buildah' >&2
    exit 1
  fi
  apt-get install -y --no-install-recommends buildah >/dev/null
fi

work=$(mktemp -d)
export BUILDAH_ISOLATION=chroot
# Images go with the run, and no kernel feature for layers is needed.
image() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
build() { image bud --quiet --pull-never "$@" >/dev/null; }
fail() { echo "error: $1" >&2; exit 1; }
clean_up() { image umount --all >/dev/null 2>&1 || true; rm -rf "$work"; }
trap clean_up EXIT

version=$(dist/chartwright version | cut -d' ' -f2)
build --target base -t "localhost/chartwright:$version" .

mkdir "$work/shop"
project=$PWD
(cd "$work/shop" && "$project/dist/chartwright" init --domain example.com --kind Shop --helm "$project/dist/helm" >/dev/null)
# With only the project as context.
build --build-arg "BASE_IMAGE=localhost/chartwright:$version" -t localhost/shop:proof "$work/shop"

config=$(image inspect --type image --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.User}} {{.OCIv1.Config.WorkingDir}}' localhost/shop:proof)
wanted='[/usr/local/bin/chartwright run --watches-file=./watches.yaml] 65532:65532 /opt/helm'
[ "$config" = "$wanted" ] || fail "the image starts as $config, not as $wanted"

container=$(image from --pull-never localhost/shop:proof)
root=$(image mount "$container")
for file in usr/local/bin/chartwright usr/local/bin/helm; do
  [ -x "$root/$file" ] || fail "$file is missing or cannot be run"
done
[ "$(stat -c %a "$root/tmp")" = 1777 ] || fail '/tmp is not open to all'
diff -r "$work/shop/helm-charts" "$root/opt/helm/helm-charts" || fail 'the charts differ'
diff "$work/shop/watches.yaml" "$root/opt/helm/watches.yaml" || fail 'watches.yaml differs'
others=$(cd "$root" && find . -type f | grep -v -e '^./opt/helm/' -e '^./usr/local/bin/' || true)
[ -z "$others" ] || fail "more is in the image: $others"

# As the pod's user, without anything but the image.
said=$(image run --user 65532:65532 "$container" -- /usr/local/bin/chartwright validate --helm /usr/local/bin/helm) || fail "it does not run in the image: $said"
echo "$said"
echo 'the image of a new project holds the program, helm, its charts and watches.yaml, and nothing else'
