#!/usr/bin/env bash
# Runs the node proof: a real node in namespaces of its own, and the walk of a newcomer through it (lab/src/node.rs).
#
#   make node-proof
#
# Needs Linux, root, cgroups that can be written, and Debian's packages. Packages are downloaded and unpacked below target/node; nothing is
# installed, and no daemon of the machine is used. The node's processes, mounts and network live in namespaces that end with this script;
# its cgroup and its files are removed on exit. dist/ holds the binaries under proof, see `make dist`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "error: make node-proof needs $1" >&2; exit 1; }

# The directories in which the node's cgroup is made: one per hierarchy with cgroup v1, one with v2.
hierarchies() {
  if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then echo /sys/fs/cgroup; return; fi
  awk '$3 == "cgroup" {print $2}' /proc/mounts
}

check() {
  [ "$(uname -s)" = Linux ] || fail 'Linux'
  [ "$(id -u)" = 0 ] || fail 'root, for namespaces, mounts and cgroups'
  for tool in apt-get dpkg-deb ip unshare; do
    command -v "$tool" >/dev/null || fail "the command $tool (Debian's apt, dpkg, iproute2 and util-linux)"
  done
  unshare --net --mount --pid --fork true 2>/dev/null || fail 'the right to make namespaces (CAP_SYS_ADMIN; a container has to be privileged)'
  [ -n "$(hierarchies)" ] || fail 'cgroups below /sys/fs/cgroup'
  local dir
  for dir in $(hierarchies); do
    { mkdir -p "$dir/$group" && rmdir "$dir/$group"; } 2>/dev/null || fail "the right to make cgroups in $dir (a container has to be privileged)"
  done
  [ -x dist/chartwright ] && [ -x dist/helm ] || fail 'dist/chartwright and dist/helm (make dist)'
}

# Puts Debian's packages below $root, as if they were installed. What is installed already is not needed there.
unpack() {
  local archives=target/node/packages package
  local packages=(containerd runc containernetworking-plugins buildah nftables nginx-light busybox-static)
  [ ! -e "$root/complete" ] || return 0
  rm -rf "$root" "$archives"
  mkdir -p "$archives/partial" "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,var}
  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
  download() { apt-get install -qq --download-only --no-install-recommends -o "Dir::Cache::archives=$PWD/$archives" "${packages[@]}" >/dev/null; }
  download 2>/dev/null || { apt-get update -qq && download; } || fail "these packages of Debian: ${packages[*]}"
  for package in "$archives"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
  done
  touch "$root/complete"
}

make_cgroup() {
  local dir controller
  for dir in $(hierarchies); do
    mkdir "$dir/$group"
    # With v2, a controller works below where it was switched on.
    if [ -e "$dir/cgroup.controllers" ]; then
      for controller in $(cat "$dir/cgroup.controllers"); do echo "+$controller" >"$dir/cgroup.subtree_control"; done
    fi
    # An empty cpuset takes no process, and v1 passes nothing on by itself.
    if [ -e "$dir/$group/cpuset.cpus" ] && [ -e "$dir/$group/cgroup.clone_children" ]; then
      cat "$dir/cpuset.cpus" >"$dir/$group/cpuset.cpus"
      cat "$dir/cpuset.mems" >"$dir/$group/cpuset.mems"
      echo 1 >"$dir/$group/cgroup.clone_children"
    fi
  done
}

# Removes the cgroups and files of a run by its process id.
remove() {
  local dir
  for dir in $(hierarchies); do
    dir=$dir/chartwright-node-$1
    # A process that was killed leaves its cgroup a moment later.
    for _ in $(seq 50); do
      [ -d "$dir" ] || break
      find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
  done
  rm -rf --one-file-system "target/node/run-$1"
}

# What runs left behind that could not end themselves.
sweep() {
  local left
  for left in target/node/run-*; do
    left=${left##*-}
    if [ "$left" != '*' ] && ! kill -0 "$left" 2>/dev/null; then remove "$left"; fi
  done
}

end() {
  local code=$?
  trap - EXIT INT TERM HUP
  # With the first process of its namespace, every process of the node ends.
  if [ -n "$node" ]; then kill -KILL "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; fi
  remove $$
  exit "$code"
}

group=chartwright-node-$$ root=target/node/root node=''
check
unpack
sweep
trap end EXIT
trap 'exit 130' INT TERM HUP
rm -rf target/node/log
mkdir -p "target/node/run-$$" target/node/log
make_cgroup
NODE_DIR=$PWD/target/node/run-$$ NODE_CGROUP=/$group NODE_ROOT=$PWD/$root target/debug/lab guard \
  unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private lab/node/inside.sh &
node=$!
wait "$node"
