# SPDX-License-Identifier: Apache-2.0
"""A real slurmctld with many slurmds for contrib/rehearse: jobs that arrive faster than one waits
for, first without GPUs, then with a GPU each of a made-up pool.

The difference between both is what rgpu costs: its plugin in slurmctld, a program before and one
after each job on the controller, one before and one after on the node.
"""

import concurrent.futures
import os
import pathlib
import re
import statistics
import subprocess
import time

FOR_JOBS = 600  # seconds that the jobs may take after the last was submitted


class Cluster:
    """contrib/minicluster with so many nodes and another's pool."""

    def __init__(self, minicluster, nodes, conf, folder, build):
        self.tool, self.folder = str(minicluster), folder
        servers = pathlib.Path(folder, 'servers.conf')
        servers.write_text(conf)
        self.at = f'{folder}/c'
        environment = dict(os.environ, O=str(build))
        begin = time.monotonic()
        up = ['up', '--nodes', str(nodes), '--servers', servers, '--dir', self.at]
        subprocess.run([self.tool, *up], env=environment, check=True)
        self.started_in = time.monotonic() - begin
        self.environment = dict(
            environment,
            SLURM_CONF=f'{self.at}/etc/slurm.conf',
            RGPU_CONF=f'{self.at}/etc/rgpu.conf',
            PATH=f'{build}/bin:{os.environ["PATH"]}',
        )

    def say(self, *command):
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    def down(self):
        subprocess.run([self.tool, 'down', '--dir', self.at], env=self.environment, check=True)

    def controller(self):
        return int(pathlib.Path(self.at, 'pid/slurmctld').read_text())

    def controller_seconds(self):
        """Of the processor: slurmctld itself, and the scripts that it has run.

        Those are children of slurmscriptd, a process that slurmctld has for them.
        """
        own, scripts = 0, 0
        for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
            try:
                fields = stat.read_text().rpartition(')')[2].split()
            except OSError:
                continue
            if int(stat.parent.name) == self.controller():
                own += int(fields[11]) + int(fields[12])
            elif int(fields[1]) == self.controller():
                scripts += sum(int(field) for field in fields[13:15])
        tick = os.sysconf('SC_CLK_TCK')
        return own / tick, scripts / tick

    def controller_memory(self):
        status = pathlib.Path(f'/proc/{self.controller()}/status').read_text()
        return int(re.search(r'^VmHWM:\s+(\d+) kB', status, re.M)[1]) / 1024

    def main_cycle(self):
        """Microseconds, mean and longest, of slurmctld's main scheduling."""
        said = self.say('sdiag')
        part = said[said.index('Main schedule statistics') :]
        found = [re.search(rf'{word} cycle: *(\d+)', part, re.I) for word in ('mean', 'max')]
        return tuple(int(match[1]) if match else 0 for match in found)


def submit(cluster, script, gpus, when):
    """(the job or why there is none, when it was asked for, how long sbatch took)"""
    time.sleep(max(0, when - time.monotonic()))
    asked, begin = time.time(), time.monotonic()
    command = ['sbatch', '--parsable', '-n1', '--output=/dev/null', *gpus, script]
    said = subprocess.run(
        command, env=cluster.environment, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or said.stderr.strip(), asked, time.monotonic() - begin


def load(cluster, name, gpus, rate, seconds):
    """Submits `rate` jobs a second; the row of the table, and the jobs that failed."""
    results = pathlib.Path(cluster.folder, name)
    results.mkdir()
    script = pathlib.Path(cluster.folder, f'{name}.sh')
    # With a GPU the lease file must be there, and hold the lease's secret.
    check = 'grep -q secret "$RGPU_LEASE" || exit 1\n' if gpus else ''
    script.write_text(
        f'#!/bin/bash\nstarted=$EPOCHREALTIME\n{check}echo "$started" >"{results}/$SLURM_JOB_ID"\n'
    )
    cluster.say('sdiag', '--reset')
    before = cluster.controller_seconds()
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4 * rate) as pool:
        starts = [begin + i / rate for i in range(rate * seconds)]
        jobs = list(pool.map(lambda when: submit(cluster, script, gpus, when), starts))
    submitted = time.monotonic() - begin
    while cluster.say('squeue', '-h', '-o', '%i') and time.monotonic() < begin + FOR_JOBS:
        time.sleep(0.5)
    took = time.monotonic() - begin
    own, scripts = (b - a for a, b in zip(before, cluster.controller_seconds()))
    waits, failed = [], []
    for job, asked, _ in jobs:
        said = results / job
        if said.exists():
            waits.append(float(said.read_text()) - asked)
        else:
            failed.append(job)
    mean, longest = cluster.main_cycle()
    row = (
        f'| {name} | {len(jobs)} | {len(jobs) / submitted:.1f} | {len(jobs) / took:.1f} '
        f'| {statistics.median(s for *_, s in jobs):.3f} s, {max(s for *_, s in jobs):.2f} s '
        f'| {statistics.median(waits or [0]):.1f} s, {max(waits or [0]):.1f} s '
        f'| {1000 * own / len(jobs):.0f} ms | {1000 * scripts / len(jobs):.0f} ms '
        f'| {mean / 1000:.1f} ms, {longest / 1000:.0f} ms '
        f'| {cluster.controller_memory():.0f} MiB | {len(failed)} |'
    )
    return row, failed


def rehearse(minicluster, build, servers, arguments, folder):
    """Prints the table; what went wrong."""
    held = sum(len(server.leases) for server in servers.at.values())
    cluster = Cluster(minicluster, arguments.slurm, servers.conf(), folder, build)
    wrong = []
    try:
        print(f'\n{arguments.slurm} nodes were idle after {cluster.started_in:.0f} s\n')
        print(
            '| jobs | number | submitted a second | ended a second | sbatch, median and longest '
            '| until it runs | slurmctld | its scripts | main cycle, mean and longest | memory '
            '| failed |'
        )
        print('|' + '---|' * 11)
        for name, gpus in ('plain', []), ('rgpu', ['--gres=rgpu:1']):
            row, failed = load(cluster, name, gpus, arguments.rate, arguments.seconds)
            print(row, flush=True)
            if failed:
                wrong.append(f'{len(failed)} jobs of "{name}" did not run: {failed[0]} and others')
        begin = time.monotonic()
        cluster.say('rgpu', 'slurm', 'sync')
        print(f'\nrgpu slurm sync afterwards: {time.monotonic() - begin:.2f} s')
    finally:
        cluster.down()
    left = sum(len(server.leases) for server in servers.at.values())
    if left != held:
        wrong.append(f'{left} leases after the jobs, {held} before them')
    return wrong
