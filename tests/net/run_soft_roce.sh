#!/bin/bash
# Runs a program against real verbs queue pairs on a machine that has no RDMA: boots a Debian kernel with Soft-RoCE
# (rdma_rxe) in qemu, emulated (no KVM, no disk, no network), the program and its libraries in the initial RAM disk.
#
#   run_soft_roce.sh [OPTION]... PROGRAM [ARG]...
#
#   --netem "ARGS"   two devices only: `tc qdisc ... netem ARGS` on both ends (delay 1ms, loss 0.2%, duplicate 1%)
#   --one-device     rxe0 alone, looping inside the device; default: rxe0 and rxe1 on the two ends of a veth pair
#   --timeout SEC    for everything, boot included (default 300)
#   --cache DIR      where the kernel is kept between runs (default /var/tmp/plait-soft-roce)
#   --no-install     do not install missing packages, skip instead
#
# The program finds the devices named rxe0 and rxe1, GID index 1 (IPv4). Exit status: the program's; 77 skipped with the
# reason on the last line; 124 timed out; 125 the machine failed.
#
# What a green run does not prove: rxe delivers in order and completes inside the post, so lost back-pressure, early
# reuse of a source and out-of-order placement do not show; those are tests of the sessions on emulated networks.
set -euo pipefail
export LC_ALL=C

CACHE=/var/tmp/plait-soft-roce TIMEOUT=300 PAIR=1 NETEM='' INSTALL=1
PACKAGES="qemu-system-x86 busybox-static cpio kmod xz-utils iproute2 libibverbs1 ibverbs-providers"
MODULES="crc32_generic rdma_rxe dummy veth sch_netem"
PROVIDER=/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
VERBS=/usr/lib/x86_64-linux-gnu/libibverbs.so.1
STATUS_MARK=plait-guest-status

say() { echo "run_soft_roce: $*" >&2; }
skip() { echo "run_soft_roce: skipped: $*"; exit 77; }
fail() { say "$*"; exit 125; }

# ---------------------------------------------------------------- what the host needs
installed() {
    local tool
    for tool in qemu-system-x86_64 busybox cpio modprobe depmod xz ip rdma tc; do command -v $tool >/dev/null || return 1; done
    [ -e "$PROVIDER" ] && [ -e "$VERBS" ]
}

install_packages() {
    installed && return
    [ $INSTALL = 1 ] || skip "qemu, busybox or rdma-core is not installed, and --no-install was given"
    command -v apt-get >/dev/null || skip "no apt-get to install qemu and rdma-core with"
    [ "$(id -u)" = 0 ] || skip "qemu or rdma-core is not installed, and this user may not install them"
    apt-get update -q >/dev/null 2>&1 || true
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $PACKAGES >"$WORK/apt" 2>&1 ||
        skip "apt-get cannot install $PACKAGES: $(tail -n 1 "$WORK/apt")"
    installed || skip "the packages are installed but $PROVIDER or a tool is still missing"
}

# The kernel of this distribution, unpacked; nothing outside the cache is touched.
fetch_kernel() {
    mkdir -p "$CACHE"
    exec 9>"$CACHE/lock"
    flock 9
    [ -s "$CACHE/kernel/vmlinuz" ] && return
    command -v apt-get >/dev/null || skip "no apt-get to download a kernel with"
    local package version module file
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
    [ -n "$package" ] || skip "apt knows no linux-image-amd64 (a Debian kernel with rdma_rxe)"
    (cd "$WORK" && apt-get -q -o APT::Sandbox::User=root download "$package" >apt 2>&1) ||
        skip "cannot download $package: $(tail -n 1 "$WORK/apt")"
    dpkg-deb -x "$WORK"/linux-image-*.deb "$WORK/x"
    [ -d "$WORK/x/lib/modules" ] || ln -s usr/lib "$WORK/x/lib"
    version=$(basename "$WORK"/x/lib/modules/*)
    depmod -b "$WORK/x" "$version"
    mkdir -p "$WORK/kernel"
    for module in $MODULES; do
        modprobe -d "$WORK/x" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | awk '!seen[$0]++' | while read -r file; do
        cp "$file" "$WORK/kernel/"
        basename "$file" >>"$WORK/kernel/order"
    done
    [ -s "$WORK/kernel/order" ] || skip "$package has no rdma_rxe module"
    cp "$WORK"/x/boot/vmlinuz-* "$WORK/kernel/vmlinuz"
    rm -rf "$CACHE/kernel" "$WORK/x"
    mv "$WORK/kernel" "$CACHE/kernel"
}

# ---------------------------------------------------------------- the guest's RAM disk
# A file to the same path in the guest, with the shared libraries that it needs.
put() {
    local library
    [ -e "$ROOT$1" ] && return
    mkdir -p "$ROOT$(dirname "$1")"
    cp -L "$1" "$ROOT$1"
    { ldd "$1" 2>/dev/null || true; } | sed -nE 's/^\t(.* => )?(\/[^ ]*) \(0x[0-9a-f]+\)$/\2/p' | while read -r library; do
        [ -e "$ROOT$library" ] || { mkdir -p "$ROOT$(dirname "$library")"; cp -L "$library" "$ROOT$library"; }
    done
}

quoted() { local word; for word in "$@"; do printf "'%s' " "${word//\'/\'\\\'\'}"; done; }

build_initrd() {
    ROOT=$WORK/root
    mkdir -p "$ROOT"/{dev,proc,sys,tmp,run,bin,etc/libibverbs.d,modules}
    cp "$(command -v busybox)" "$ROOT/bin/busybox"
    ln -s busybox "$ROOT/bin/sh"
    cp "$CACHE"/kernel/*.ko* "$CACHE/kernel/order" "$ROOT/modules/"
    local tool
    for tool in ip rdma tc; do
        put "$(command -v $tool)"
        ln -s "$(command -v $tool)" "$ROOT/bin/guest-$tool"      # busybox has applets of the same names
    done
    put "$VERBS"
    put "$PROVIDER"
    cp -L "$PROVIDER" "$ROOT$(dirname "$PROVIDER")/"
    echo "driver rxe" >"$ROOT/etc/libibverbs.d/rxe.driver"
    mkdir -p "$ROOT/program"
    cp -L "$PROGRAM" "$ROOT/program/run"
    put_libraries_of "$PROGRAM"
    { echo 'export PATH=/bin'; printf 'exec /program/run '; quoted "$@"; echo; } >"$ROOT/command"
    guest_init >"$ROOT/init"
    chmod 755 "$ROOT/init"
    (cd "$ROOT" && find . -print0 | cpio -0 -o -H newc --quiet -R 0:0) >"$WORK/initrd"
    rm -rf "$ROOT"
}

put_libraries_of() {
    local library
    { ldd "$1" 2>/dev/null || true; } | sed -nE 's/^\t(.* => )?(\/[^ ]*) \(0x[0-9a-f]+\)$/\2/p' | while read -r library; do put "$library"; done
}

# Process 1 of the guest. The second serial line carries the program's output and, marked, its exit status.
guest_init() {
    cat <<INIT
#!/bin/sh
PAIR=$PAIR NETEM="$NETEM" MARK=$STATUS_MARK
INIT
    cat <<'INIT'
export PATH=/bin
/bin/busybox --install -s /bin 2>/dev/null
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm
OUT=/dev/ttyS1
stty -F $OUT raw -echo 2>/dev/null
end() { echo "$MARK $1" >$OUT; sync; sleep 1; reboot -f; sleep 60; }
broken() { echo "guest: $*" >$OUT; end 125; }
while read -r module; do insmod "/modules/$module" || broken "insmod $module"; done </modules/order
guest-ip link set lo up
if [ $PAIR = 1 ]; then
    # Both ends are in one network namespace (rxe of Linux 6.1 works in the initial one only). Without these rules the
    # kernel would route from one end to the other through lo, and connecting would fail.
    guest-ip link add veth0 address 02:00:00:00:00:00 type veth peer name veth1 address 02:00:00:00:00:01 || broken veth
    for i in 0 1; do
        guest-ip link set veth$i mtu 4500 up
        guest-ip addr add 10.77.0.$((i + 1))/24 dev veth$i nodad
        guest-ip rule add pref 1$i iif veth$i lookup local
        guest-ip rule add pref 2$i iif lo oif veth$i lookup 10$i
        guest-ip rule add pref 3$i iif lo from 10.77.0.$((i + 1)) lookup 10$i
        guest-ip route add 10.77.0.$((2 - i))/32 dev veth$i src 10.77.0.$((i + 1)) table 10$i
        guest-ip route add local 10.77.0.$((i + 1)) dev veth$i table 10$i
        guest-ip neigh add 10.77.0.$((2 - i)) dev veth$i lladdr 02:00:00:00:00:0$((1 - i)) nud permanent
        [ -z "$NETEM" ] || guest-tc qdisc add dev veth$i root netem limit 10000 $NETEM || broken "netem $NETEM"
    done
    guest-ip rule add pref 50 lookup local
    guest-ip rule del pref 0
    for i in all veth0 veth1; do echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter; echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local; done
    guest-rdma link add rxe0 type rxe netdev veth0 && guest-rdma link add rxe1 type rxe netdev veth1 || broken "rdma link add"
    DEVICES="rxe0 rxe1"
else
    guest-ip link add net0 type dummy && guest-ip link set net0 mtu 4500 up && guest-ip addr add 10.77.0.1/24 dev net0 || broken net0
    guest-rdma link add rxe0 type rxe netdev net0 || broken "rdma link add"
    DEVICES=rxe0
fi
for device in $DEVICES; do
    port=/sys/class/infiniband/$device/ports/1 try=0
    until grep -q ACTIVE $port/state && grep -q 0000:ffff: $port/gids/1; do
        try=$((try + 1)); [ $try -lt 100 ] || broken "$device did not come up"
        sleep 0.1
    done
done
ulimit -l unlimited
sh /command </dev/null >$OUT 2>&1
end $?
INIT
}

# ---------------------------------------------------------------- boot and wait
# Without erms and fsrm: the emulator runs `rep movsb` byte by byte. q35, not microvm: without an HPET the guest's timer
# calibration hangs now and then on a busy machine.
boot() {
    : >"$WORK/console"
    : >"$WORK/output"
    setpriv --pdeathsig KILL qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -smp 2 -m 1024 -cpu max,-erms,-fsrm,-la57 \
        -nodefaults -no-user-config -display none -monitor none -no-reboot -net none \
        -serial "file:$WORK/console" -serial "file:$WORK/output" -kernel "$CACHE/kernel/vmlinuz" -initrd "$WORK/initrd" \
        -append "console=ttyS0 loglevel=5 panic=-1 reboot=t mitigations=off tsc=reliable no_timer_check nowatchdog" \
        </dev/null >"$WORK/qemu" 2>&1 9>&- &
    QEMU=$!
}

wait_for_guest() {
    local until=$((SECONDS + TIMEOUT))
    while kill -0 "$QEMU" 2>/dev/null; do
        if [ $SECONDS -ge $until ]; then
            cat "$WORK/output"
            say "timed out after $TIMEOUT s; the guest's console ends with:"
            tail -n 5 "$WORK/console" >&2
            exit 124
        fi
        sleep 0.2
    done
    wait "$QEMU" || true
    QEMU=''
    tr -d '\r' <"$WORK/output" | grep -av "^$STATUS_MARK " || true
    local status
    status=$(tr -d '\r' <"$WORK/output" | sed -n "s/^$STATUS_MARK \([0-9]*\)\$/\1/p" | tail -n 1)
    if grep -aE 'BUG:|Oops|Kernel panic|general protection' "$WORK/console" >&2; then say "the guest's kernel complained (above)"; fi
    if [ -z "$status" ]; then
        cat "$WORK/qemu" >&2
        tail -n 20 "$WORK/console" >&2
        fail "the guest ended without a status"
    fi
    exit "$status"
}

while [ $# -gt 0 ]; do
    case $1 in
        --netem) NETEM=$2; shift ;;
        --one-device) PAIR=0 ;;
        --timeout) TIMEOUT=$2; shift ;;
        --cache) CACHE=$2; shift ;;
        --no-install) INSTALL=0 ;;
        -*) fail "unknown option $1" ;;
        *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || fail "no program given; the head of this script says how"
PROGRAM=$1
shift
[ -x "$PROGRAM" ] || fail "no such program: $PROGRAM"
[ "$(uname -sm)" = "Linux x86_64" ] || skip "only Linux on x86_64 is supported, this is $(uname -sm)"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/plait-soft-roce.XXXXXX") QEMU=''
cleanup() {
    [ -z "$QEMU" ] || kill -KILL "$QEMU" 2>/dev/null || true
    rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
install_packages
fetch_kernel
build_initrd "$@"
flock -u 9
boot
wait_for_guest
