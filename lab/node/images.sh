#!/usr/bin/env bash
# Builds the images that pods of the walk need, from Debian's packages, under the names that their manifests have.
set -euo pipefail

files=$NODE_DIR/images/files
mkdir -p "$files/busybox/"{bin,tmp} "$files/nginx/"{etc,usr/sbin,usr/share/nginx/html}
chmod 1777 "$files/busybox/tmp"
cp "$(command -v busybox)" "$files/busybox/bin/busybox"
for applet in $("$files/busybox/bin/busybox" --list); do
  [ "$applet" = busybox ] || ln -s busybox "$files/busybox/bin/$applet"
done
cp /usr/sbin/nginx "$files/nginx/usr/sbin/"
cp lab/node/nginx.conf "$files/nginx/etc/"
ldd /usr/sbin/nginx | grep -o '/[^ ]*' | xargs -I{} cp --parents -L {} "$files/nginx"

version=$(awk '$1 == "appVersion:" {gsub(/"/, "", $2); print $2}' helm-charts/nginx/Chart.yaml)
build() { lab/node/buildah build --quiet --file lab/node/Dockerfile --target "$1" --tag "$2" "$files" >/dev/null; }
build pause registry.k8s.io/pause:3.10
build busybox docker.io/library/busybox:1.36
build nginx "docker.io/nginxinc/nginx-unprivileged:$version-alpine-slim"
# The image of lab/node/storefront.
build nginx docker.io/bitnami/nginx:1.29.1-debian-12-r0
