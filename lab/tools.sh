#!/usr/bin/env bash
# Gets the tools that the demo and the tests run, and links them under their plain names in one directory.
#
#   lab/tools.sh         get what is missing
#   lab/tools.sh tests   and what only the tests need: it is built from source, which takes Go
#   lab/tools.sh node    and what only a node runs: kubelet and kube-proxy
#   lab/tools.sh path    print the directory that holds them
#
# Each tool is looked for in this order:
#   1. its environment variable (LAB_HELM3, LAB_HELM4, LAB_ETCD, LAB_KUBE_APISERVER, LAB_KUBE_CONTROLLER_MANAGER,
#      LAB_KUBE_SCHEDULER, LAB_KUBECTL, LAB_KWOK, LAB_PROMCHECK, LAB_KUBELET, LAB_KUBE_PROXY): the path of a ready binary
#   2. the cache, shared by all checkouts and keyed by version
#   3. the official release, its published checksum verified. LAB_MIRROR=http://host puts a mirror in front of
#      https://, LAB_DOWNLOAD=off skips this step
#   4. a build from source through the Go module proxy; lab/tools/*/go.mod pins the versions
#
# A tool appears in the cache by one rename, so a killed run leaves no half tool; a lock per tool lets two runs share
# the work.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=${LAB_TOOLS_DIR:-$here/../target/tools}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/chartwright/tools
os=$(uname -s | tr '[:upper:]' '[:lower:]')
arch=$(uname -m | sed -e 's/x86_64/amd64/' -e 's/aarch64/arm64/')
tools=(helm4 helm3 etcd kwok kubectl kube-scheduler kube-controller-manager kube-apiserver)

# The version a module is pinned at, read from go.mod so that it is written down once.
pinned() { awk -v module="$2" '$1 == module {print $2; exit} $1 == "require" && $2 == module {print $3; exit}' "$here/tools/$1/go.mod"; }

# Sets module (a directory under lab/tools), package, version, ldflags, url and sums for a tool. The release is either
# the binary itself or a .tar.gz that holds it somewhere under the name in `member`.
describe() {
  local minor client
  member=''
  case $1 in
    helm3|helm4)
      local n=${1#helm}
      module=$1 package=helm.sh/helm/v$n/cmd/helm version=$(pinned "$1" "helm.sh/helm/v$n") member=helm
      # Helm derives the Kubernetes version it assumes from its client-go, v0.37.0 meaning 1.37.
      client=$(pinned "$1" k8s.io/client-go) minor=$(cut -d. -f2 <<<"$client")
      ldflags="-X helm.sh/helm/v$n/internal/version.version=$version -X helm.sh/helm/v$n/internal/version.gitTreeState=clean"
      [ "$n" = 4 ] || for p in lint/rules chartutil; do
        ldflags+=" -X helm.sh/helm/v3/pkg/$p.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$p.k8sVersionMinor=$minor"
      done
      url=https://get.helm.sh/helm-$version-$os-$arch.tar.gz sums=$url.sha256sum ;;
    etcd)
      module=etcd package=. version=$(pinned etcd go.etcd.io/etcd/server/v3) ldflags='' member=etcd
      url=https://github.com/etcd-io/etcd/releases/download/$version
      sums=$url/SHA256SUMS url=$url/etcd-$version-$os-$arch.tar.gz ;;
    kwok)
      module=kwok package=sigs.k8s.io/kwok/cmd/kwok version=$(pinned kwok sigs.k8s.io/kwok)
      ldflags="-X sigs.k8s.io/kwok/pkg/consts.Version=${version#v}"
      url=https://github.com/kubernetes-sigs/kwok/releases/download/$version/kwok-$os-$arch sums=$url.sha256 ;;
    promcheck)
      # Our own few lines around Prometheus's parsers: they are part of its version, and nobody publishes it.
      module=promcheck package=. ldflags='' url='' sums=''
      version=$(pinned promcheck github.com/prometheus/prometheus)-$(sha256 "$here/tools/promcheck/main.go" | cut -c1-8) ;;
    *)
      module=kubernetes package=k8s.io/kubernetes/cmd/$1 version=$(pinned kubernetes k8s.io/kubernetes)
      minor=$(cut -d. -f2 <<<"$version")
      ldflags=''
      # A server that reports v0.0.0 breaks charts that ask for a Kubernetes version; kubectl reads client-go's own copy.
      for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        ldflags+=" -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=$minor -X $p.gitTreeState=clean"
      done
      url=https://dl.k8s.io/release/$version/bin/$os/$arch/$1 sums=$url.sha256 ;;
  esac
}

say() { printf '%-24s %-8s %s\n' "$1" "$version" "$2" >&2; }

# Runs a command with its output in a log; on a terminal a line counts the seconds.
watched() {
  local what=$1 tool=$2 log=$3 start=$SECONDS job; shift 3
  # A process group of its own: Ctrl-C does not reach a background job of a script, so the whole group is ended by hand.
  set -m
  "$@" >"$log" 2>&1 &
  job=$!
  set +m
  trap 'kill -- -$job 2>/dev/null; exit 130' INT TERM
  if [ -t 2 ]; then
    while kill -0 "$job" 2>/dev/null; do
      printf '\r%-24s %-8s %s, %s s ' "$tool" "$version" "$what" $((SECONDS - start)) >&2
      sleep 1
    done
    printf '\r\033[K' >&2
  fi
  wait "$job"
}

fetch() { curl --fail --silent --show-error --location --retry 2 --connect-timeout 5 --output "$2" "${LAB_MIRROR:-https:/}/${1#https://}"; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

# A checksum file holds either the bare sum or lines of `sum  name`.
expected_sum() { awk -v name="$2" 'NF == 1 {print $1; exit} {sub(/^\*/, "", $2)} $2 == name {print $1; exit}' "$1"; }

# Downloads the release to $2. An unverifiable download is a failure: the build from source comes next.
download() {
  local tool=$1 out=$2 work; work=$(dirname "$out")
  fetch "$sums" "$work/sums" && fetch "$url" "$work/release" || return
  local want got; want=$(expected_sum "$work/sums" "$(basename "$url")") got=$(sha256 "$work/release")
  if [ -z "$want" ] || [ "$want" != "$got" ]; then
    echo "checksum of $url is $got, published is ${want:-missing}"; return 1
  fi
  if [ -n "$member" ]; then
    mkdir -p "$work/unpacked" && tar -xzf "$work/release" -C "$work/unpacked"
    mv "$(find "$work/unpacked" -type f -name "$member" | head -1)" "$out"
  else
    mv "$work/release" "$out"
  fi
  chmod +x "$out"
}

build() {
  command -v go >/dev/null || { echo 'go is not installed'; return 1; }
  (cd "$here/tools/$module" && CGO_ENABLED=0 GOFLAGS='' go build -trimpath -buildvcs=false -ldflags "-s -w $ldflags" -o "$2" "$package")
}

# Puts one tool into the cache.
obtain() {
  local tool=$1 home=$2 start=$SECONDS work
  work=$home.tmp.$$
  rm -rf "$home".tmp.*
  mkdir -p "$work"
  local log=$work/log tried=''
  if [ -n "$url" ] && [ "${LAB_DOWNLOAD:-on}" != off ]; then
    if watched "downloading" "$tool" "$log" download "$tool" "$work/$tool"; then
      finish "$tool" "$home" "$work"; say "$tool" "downloaded in $((SECONDS - start)) s"; return
    fi
    tried="download: $(tail -1 "$log")"
  fi
  [ -t 2 ] || say "$tool" 'building from source'
  if watched "building from source" "$tool" "$log" build "$tool" "$work/$tool"; then
    finish "$tool" "$home" "$work"; say "$tool" "built from source in $((SECONDS - start)) s"; return
  fi
  {
    echo "error: $tool $version cannot be had."
    echo "  tried: the cache ($home)"
    echo "  tried: ${tried:-download: switched off by LAB_DOWNLOAD=off, or not published}"
    echo "  tried: a build from source: $(tail -5 "$log" | tr '\n' ' ')"
    echo "  remedy: install Go 1.26 or allow the download, or set LAB_$(tr 'a-z-' 'A-Z_' <<<"$tool") to the path of a ready binary"
  } >&2
  rm -rf "$work"
  exit 1
}

finish() { rm -rf "$3/log" "$3/sums" "$3/release" "$3/unpacked"; mv "$3" "$2"; }

# Links one tool into the directory, getting it first if need be.
provide() {
  local tool=$1 variable path
  variable=LAB_$(tr 'a-z-' 'A-Z_' <<<"$tool") path=${!variable:-}
  if [ -n "$path" ]; then
    [ -x "$path" ] || { echo "error: $variable=$path is not an executable file; unset it or correct it" >&2; exit 1; }
    path=$(cd "$(dirname "$path")" && pwd)/$(basename "$path")
  else
    describe "$tool"
    local home=$cache/$tool-$version-$os-$arch
    path=$home/$tool
    if [ ! -x "$path" ]; then
      mkdir -p "$cache"
      (
        command -v flock >/dev/null && flock 9
        [ -x "$path" ] || obtain "$tool" "$home"
      ) 9>"$cache/.lock-$tool"
    fi
  fi
  ln -sfn "$path" "$bin/$tool"
}

mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
case ${1:-get} in
  path) echo "$bin" ;;
  get|tests|node)
    case ${1:-get} in
      tests) tools+=(promcheck) ;;
      node) tools+=(kubelet kube-proxy) ;;
    esac
    for tool in "${tools[@]}"; do provide "$tool"; done
    # helm 4 is the one in the image.
    ln -sfn helm4 "$bin/helm"
    echo "tools: $bin" ;;
  *) sed -n '2,7p' "$0"; exit 2 ;;
esac
