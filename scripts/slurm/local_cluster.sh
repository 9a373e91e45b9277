#!/bin/bash
# A Slurm of two nodes on this machine, for trying sbatch files; nothing but loopback can reach it.
#   apt-get install slurm-wlm munge
#   scripts/slurm/local_cluster.sh start FOLDER; export SLURM_CONF=FOLDER/slurm.conf; sinfo
#   scripts/slurm/local_cluster.sh stop FOLDER
set -eu
PATH=$PATH:/usr/sbin
folder=$(realpath -m "${2:?start FOLDER or stop FOLDER}")
daemons="slurmd-n1 slurmd-n2 slurmctld munged"

stop() {
    SLURM_CONF=$folder/slurm.conf timeout 10 scancel --user="$(id -un)" || true
    for name in $daemons; do
        pid=$(cat "$folder/$name.pid" 2>/dev/null) || continue
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    done
}

free_ports() {  # three, held together so that they differ
    python3 - <<END
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in held))
END
}

start() {
    read -r controller first second < <(free_ports)
    mkdir -p "$folder/state" "$folder/n1" "$folder/n2"
    chmod 755 "$folder"
    export SLURM_CONF=$folder/slurm.conf
    (umask 077; head -c 1024 /dev/urandom > "$folder/munge.key")
    cat > "$SLURM_CONF" <<END
ClusterName=local
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
# A credential's life is also how long a job that is queued again must wait.
AuthInfo=socket=$folder/munge.sock,cred_expire=${CRED_EXPIRE:-5}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort=$controller
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=${KILL_WAIT:-30}
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$first CPUs=1
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$second CPUs=1
PartitionName=all Nodes=ALL Default=YES State=UP
END
    munged --force --socket="$folder/munge.sock" --key-file="$folder/munge.key" --num-threads=2 \
        --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
    slurmctld
    slurmd -N n1
    slurmd -N n2
    for _ in $(seq 100); do
        [ "$(sinfo --noheader --format=%D --states=idle 2>/dev/null)" = 2 ] && return
        sleep 0.2
    done
    tail -n 5 "$folder"/*.log >&2
    stop
    exit 1
}

case $1 in start) start ;; stop) stop ;; *) exit 2 ;; esac
