#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# two_nodes.sh (openmpi|mpich) ranks command...: runs each command, a word with a program and its arguments, with its ranks on
# two nodes that share no memory as far as MPI knows: network namespaces with host names of their own, joined by a veth pair;
# once with ranks dealt out in turn and once with neighbours side by side. With TUTTI_LINK=1gbit the link is as slow. TUTTI_TEST_WITH is
# a script that runs the command instead, with the arguments `ranks launcher -n ranks command`. Exits 77 where that is not allowed.
set -eu
kind=$1 ranks=$2
shift 2
for command; do
  command -v "${command%% *}" >/dev/null || {
    echo "two_nodes.sh: ${command%% *} is no program; pass a program with its arguments as one word"
    exit 2
  }
done

skip() {
  echo "skipped: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "there is no ip (Debian: iproute2)"

a=tutti-a-$$ b=tutti-b-$$
folder=$(mktemp -d)
clean_up() {
  ip netns pids "$a" 2>/dev/null | xargs -r kill 2>/dev/null || true
  ip netns pids "$b" 2>/dev/null | xargs -r kill 2>/dev/null || true
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$folder" "/etc/netns/$a" "/etc/netns/$b"
  rmdir /etc/netns 2>/dev/null || true
}
trap clean_up EXIT
trap 'exit 1' INT TERM

{ ip netns add "$a" && ip netns add "$b"; } 2>"$folder/why" || skip "$(cat "$folder/why")"
ip link add eth0 netns "$a" type veth peer name eth0 netns "$b" 2>"$folder/why" || skip "$(cat "$folder/why")"
ip netns exec "$a" unshare --uts hostname "$a" 2>"$folder/why" || skip "$(cat "$folder/why")"
ip -n "$a" addr add 10.77.0.1/24 dev eth0
ip -n "$b" addr add 10.77.0.2/24 dev eth0
for node in "$a" "$b"; do
  ip -n "$node" link set lo up
  ip -n "$node" link set eth0 up
done

# Stands in for ssh: [options] host command...
cat >"$folder/on_node" <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
node=$1
shift
exec ip netns exec "$node" unshare --uts sh -c "hostname $node; $*"
END
chmod +x "$folder/on_node"
# The nodes' names: `ip netns exec` puts these files in the place of those of /etc.
for node in "$a" "$b"; do
  mkdir -p "/etc/netns/$node"
  printf '%s\n' '127.0.0.1 localhost' "10.77.0.1 $a" "10.77.0.2 $b" >"/etc/netns/$node/hosts"
done

if [ -n "${TUTTI_LINK-}" ]; then
  for node in "$a" "$b"; do
    tc -n "$node" qdisc add dev eth0 root tbf rate "$TUTTI_LINK" burst 64kb latency 50ms
  done
fi

half=$(((ranks + 1) / 2))

# Launchers: ranks dealt out to the nodes in turn, or neighbours side by side.
for by in node slot; do
  each=$([ "$by" = node ] && echo 1 || echo "$half")
  case $kind in
    openmpi)
      launcher="mpirun.openmpi --host $a:$half,$b:$half --map-by $by --bind-to none --mca plm_rsh_agent $folder/on_node \
        --mca orte_keep_fqdn_hostnames 1 --mca pml ob1 --mca btl tcp,vader,self --mca btl_tcp_if_include eth0 \
        --mca oob_tcp_if_include eth0" ;;
    mpich)
      launcher="env UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 mpiexec.mpich -launcher ssh -launcher-exec $folder/on_node \
        -hosts $a,$b -ppn $each" ;;
  esac
  printf '#!/bin/sh\nexec %s %s "exec %s $*"\n' "$folder/on_node" "$a" "$launcher" >"$folder/by_$by"
  chmod +x "$folder/by_$by"
done

# The link takes a moment to come up.
tries=50
until ip -n "$a" link show eth0 | grep -q 'state UP' && ip -n "$b" link show eth0 | grep -q 'state UP'; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || {
    echo "the link between the nodes does not come up"
    exit 1
  }
  sleep 0.1
done
nodes=$("$folder/by_slot" -n "$ranks" hostname | sort -u | wc -l)
[ "$nodes" = 2 ] || {
  echo "$kind started its ranks on $nodes nodes, not on 2"
  exit 1
}
for command; do
  if [ -n "${TUTTI_TEST_WITH-}" ]; then
    "$TUTTI_TEST_WITH" "$ranks" "$folder/by_slot" -n "$ranks" $command
    continue
  fi
  "$folder/by_node" -n "$ranks" "$command"
  "$folder/by_slot" -n "$ranks" "$command"
done
