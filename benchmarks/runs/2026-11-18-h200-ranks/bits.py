#!/usr/bin/env python3
"""bits.py ORRERY DEVICE SCALE [MPIRUN]: files of runs on several ranks, compared with those of one."""
import hashlib, os, shutil, subprocess, sys, time
orrery, device, scale = sys.argv[1], sys.argv[2], float(sys.argv[3])
mpirun = (sys.argv[4] if len(sys.argv) > 4 else "mpirun").split()
n = lambda x: str(max(int(x * scale), 200))
cases = {
    "tree": ["plummer", "--set", "bodies.n=" + n(40000), "--set", 'gravity.solver="tree"', "--set", "time.end=0.5", "--set", 'output.image_every=0.25', "--set", "output.snapshot_every=0.25"],
    "direct": ["plummer", "--set", "bodies.n=" + n(8000), "--set", 'gravity.solver="direct"', "--set", "time.end=0.5", "--set", "output.image_every=0", "--set", "output.snapshot_every=0.5"],
    "hermite": ["plummer", "--set", "bodies.n=" + n(3000), "--set", 'time.integrator="hermite4"', "--set", "time.end=0.5", "--set", "output.image_every=0"],
    "heat": ["hot-plate", "--set", 'output.image_every="200 steps"', "--set", 'time.end="1 s"'],
    "wave": ["wave-3d", "--set", 'time.end="0.1 s"', "--set", 'output.image_every="50 ms"'],
    "wave2d": ["salt-dome", "--set", 'time.end="0.2 s"'],
    "lj": ["lj-melt", "--set", 'time.end=0.5'],
    "langevin": ["argon", "--set", 'time.end="1 ps"'],
}
def digest(folder):
    result = {}
    for root, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)
            short = os.path.relpath(path, folder)
            if short in ("run.log",) or name == ".lock": continue
            result[short] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return result
def run(prefix, args, out):
    shutil.rmtree(out, ignore_errors=True)
    start = time.time()
    done = subprocess.run(prefix + [orrery, "run"] + args + ["--out", out, "--quiet"], capture_output=True, text=True, timeout=300)
    return time.time() - start, done
bad = 0
only = os.environ.get("ONLY", "").split() or list(cases)
for name in only:
    args = cases[name]
    seconds, done = run([], args + ["--device", device], "/tmp/bits/one")
    if done.returncode: print(name, "one rank failed:", done.stderr[-500:]); bad += 1; continue
    expected = digest("/tmp/bits/one")
    line = f"{name}: one {seconds:.1f} s, {len(expected)} files;"
    ways = []
    if device != "cpu":
        first = device if ":" in device else device + ":0"
        ways += [(f"x{k}", [], ["--device", ",".join([first] * k)]) for k in (2, 3, 4)]
    ways += [(f"mpi{k}", mpirun + ["-n", str(k)], ["--device", device]) for k in (2, 3, 4)]
    for label, prefix, more in ways:
        seconds, done = run(prefix, args + more, "/tmp/bits/many")
        if done.returncode:
            line += f" {label} FAILED ({done.returncode}: {done.stderr.strip()[-300:]})"; bad += 1; continue
        found = digest("/tmp/bits/many")
        different = sorted(f for f in set(expected) | set(found) if expected.get(f) != found.get(f))
        line += f" {label} {'equal' if not different else 'DIFFERENT ' + ' '.join(different[:6])} {seconds:.1f} s;"
        bad += bool(different)
    print(line, flush=True)
print("bits:", "all equal" if not bad else f"{bad} problems")
