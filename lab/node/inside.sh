#!/usr/bin/env bash
# The first process inside of the node's namespaces, started by proof.sh: mounts, network, images, then the walk.
# Nothing here reaches the machine: mounts and devices end with the namespaces, and there is no link to the machine's network.
set -euo pipefail

mount --make-rshared /
# Debian's packages seem to be installed. What is written goes to the run's directory.
for dir in usr etc; do
  mkdir -p "$NODE_DIR/$dir" "$NODE_DIR/.$dir"
  mount -t overlay overlay -o "lowerdir=$NODE_ROOT/$dir:/$dir,upperdir=$NODE_DIR/$dir,workdir=$NODE_DIR/.$dir" "/$dir"
done
for dir in lib log tmp; do
  mkdir -p "$NODE_DIR/var-$dir"
  mount --bind "$NODE_DIR/var-$dir" "/var/$dir"
done
mount -t tmpfs tmpfs /run
mkdir -p /etc/cni/net.d
cp lab/node/cni.conflist /etc/cni/net.d/
# The kubelet writes these, and they are the whole machine's.
for setting in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
  copy=$NODE_DIR/$(basename "$setting")
  cp "/proc/sys/$setting" "$copy"
  mount --bind "$copy" "/proc/sys/$setting"
done

# The node's address, on a pair of devices of which both ends are in here. Services are reached through the node.
ip link set lo up
ip link add node0 type veth peer name node1
ip address add 10.231.0.2/24 dev node0
ip link set node0 up
ip link set node1 up
ip route add 10.96.0.0/12 dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward

unset LAB_OWNER MAKEFLAGS MAKELEVEL
tools=$(lab/tools.sh path)
export PATH=$PWD/dist:$tools:/usr/sbin:/usr/bin:/sbin:/bin
export KUBECONFIG=$NODE_DIR/lab/kubeconfig CONTAINER_TOOL=$PWD/lab/node/buildah
lab/node/images.sh
# Not exec: this process reaps what the container runtime leaves.
target/debug/lab node
