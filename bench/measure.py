# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A row of the results: all contenders take turns at one size, and disturbed turns are detected."""

import os
import statistics

import report
import teams

# Limits for undisturbed turns: the time of a fixed computation relative to the best of the run, the latency between cores relative to
# the median of the row, and the fraction of the time for which ranks that never sleep had their cores.
SPIN_BOUND, FLAG_BOUND, SHARE_BOUND = 1.3, 1.5, 0.9
# If the middle half of the ratios spreads further than this, more rounds are taken.
SPREAD_BOUND = 0.2


def first(file, key, default="?"):
    try:
        with open(file) as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), default)
    except OSError:
        return default


def steal():
    """Ticks of 10 ms that the host gave to other machines."""
    with open("/proc/stat") as lines:
        return int(lines.readline().split()[8])


def load():
    return " ".join(f"{x:.2f}" for x in os.getloadavg())


class Wrong(Exception):
    """A wrong result, which ends the run."""


class Contender:
    def __init__(self, name, role, team, **wanted):
        self.name, self.role, self.team, self.wanted = name, role, team, wanted

    def turn(self, what, mode, check=False, **plan):
        """Returns the times of the slowest rank and signs of disturbance, or {"no": reason} if the contender cannot run this row."""
        before = steal()
        answers = self.team.ask(**what, **self.wanted, mode=mode, check=check, **plan)
        out = answers[0]
        if "no" in out:
            return out
        for rank, answer in enumerate(answers):
            if not answer.get("right", True):
                raise Wrong(f"{self.name} gave a wrong result on rank {rank}: {what}")
        shares = [a["share"] for a in answers]
        share = sum(shares) / len(self.team.cores) if self.team.crowded else min(shares)
        return out | {"steal": steal() - before, "spin_ns": max(a["spin_ns"] for a in answers),
                      "share": 1 if self.team.sleeps else share}


def plan(mode, us, block_ms, crowded):
    """Returns how many calls take the time of a turn. Groups are longer with more ranks than cores, whose start is staggered."""
    every = block_ms * 1e3 / us
    calls = 1 if mode == "it" else int(min(max((2000 if crowded else 50) / us, 1), 500))
    samples = int(min(max(every / calls, 3), 5000 if mode == "it" else 500))
    return {"samples": samples, "calls": calls, "warm": min(max(samples // 10, 1), 20)}


class Row:
    """All contenders at one size."""

    best_spin = float("inf")  # over all rows

    def __init__(self, options, contenders, what, mode, say):
        self.options, self.mode, self.what, self.say = options, mode, what, say
        self.contenders, self.rounds = [], []
        for c in contenders:
            if self.guard(c, self.admit):
                self.contenders.append(c)

    def guard(self, c, work):
        """Returns work(c). A lost team is left out from here on; the loss of a team of tutti ends the run."""
        try:
            return work(c) if not c.team.killed else None
        except teams.Lost as reason:
            if c.team.ours:
                raise
            row = f"{self.what['collective']}, {self.what['bytes']} bytes"
            self.say(f"{c.team.name} is left out from here on ({row}): {reason}")
            self.contenders = [other for other in self.contenders if other.team is not c.team]

    def admit(self, c):
        """Checks the result in a first turn, from which the number of calls per turn follows."""
        few = {"samples": 5 if self.what["bytes"] < 1 << 25 else 2, "calls": 1, "warm": 2}
        probe = c.turn(self.what, "it", check=True, **few)
        if "no" in probe:
            if c.role == "ours":
                self.say(f"{c.name} is missing from some rows of {self.what['collective']}: {probe['no']}")
            return False
        c.runs, c.bytes, c.plan = probe["runs"], probe["bytes"], plan(
                self.mode, probe["us"], self.options.block_ms, c.team.crowded)
        return True

    def run(self, order):
        """Runs the rounds, in each of which every contender has a turn in a new order, and returns the records of the row."""
        if not any(c.role == "ours" for c in self.contenders):
            return []
        for number in range(self.options.repeats + self.options.extra):
            if number >= self.options.repeats and not self.wants_more():
                break
            turns = {}
            for c in order.sample(self.contenders, len(self.contenders)):
                if turn := self.guard(c, lambda c: c.turn(self.what, self.mode, **c.plan)):
                    turns[c.name] = turn
            self.rounds.append(turns)
        return self.records()

    def quiet(self):
        """Returns the rounds without a disturbed turn."""
        turns = [t for r in self.rounds for t in r.values()]
        Row.best_spin = min([Row.best_spin] + [t["spin_ns"] for t in turns])
        flag = statistics.median([t["flag_ns"] for t in turns if t["flag_ns"]] or [0])  # 0: not measured

        def fine(t):
            return (t["steal"] == 0 and t["share"] >= SHARE_BOUND and t["spin_ns"] <= Row.best_spin * SPIN_BOUND
                    and (not t["flag_ns"] or flag / FLAG_BOUND <= t["flag_ns"] <= flag * FLAG_BOUND))
        judged = [c.name for c in self.contenders if c.role != "limit"]
        return [r for r in self.rounds if all(fine(r[name]) for name in judged)]

    def wants_more(self):
        quiet = self.quiet()
        return len(quiet) < self.options.repeats or any(
            spread(ratios) > SPREAD_BOUND for ratios in self.ratios(quiet)[1].values())

    def ratios(self, rounds):
        """Returns the peer with the best median, and for each of our contenders the ratio of the times in every round."""
        def middle(c):
            return statistics.median(r[c.name]["us"] for r in rounds)
        peers = [c for c in self.contenders if c.role == "peer"]
        best = min(peers, key=middle, default=None)
        if not best:
            return None, {}
        ours = [c.name for c in self.contenders if c.role == "ours"]
        return best, {name: [r[best.name]["us"] / r[name]["us"] for r in rounds] for name in ours}

    def records(self):
        quiet = self.quiet()
        enough = len(quiet) >= (self.options.repeats + 1) // 2
        rounds = quiet if enough else self.rounds
        best, ratios = self.ratios(rounds)
        out = []
        for c in self.contenders:
            us = [r[c.name]["us"] for r in rounds]
            time_us = statistics.median(us)
            algbw = c.bytes / time_us / 1e3
            record = {
                "record": "time", **{k: v for k, v in self.what.items() if k != "in_place"},
                "place": "in" if self.what["in_place"] else "out", "mode": self.mode, "ranks": c.team.ranks,
                "contender": c.name, "role": c.role, "best_peer": c is best, "runs": c.runs,
                "us": time_us, "us_p99": statistics.median(r[c.name]["p99"] for r in rounds), "us_rounds": us,
                "algbw": algbw, "busbw": algbw * report.bus_factor(self.what["collective"], c.team.ranks),
                "rounds": len(rounds), "rounds_left_out": len(self.rounds) - len(rounds),
                "flag_ns": statistics.median(r[c.name]["flag_ns"] for r in rounds),
                "share": min(r[c.name]["share"] for r in rounds), "calls": c.plan,
                "disturbed": not enough}
            if c.name in ratios:
                r = ratios[c.name]
                record |= {"ratio": statistics.median(r), "ratio_min": min(r), "ratio_max": max(r),
                           "spread": spread(r) > SPREAD_BOUND}
            out.append(record)
        return out


def spread(values):
    """Returns the spread of the middle half (of all if there are few) relative to the median."""
    if len(values) < 2:
        return 0
    low, high = min(values), max(values)
    if len(values) > 3:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / statistics.median(values)
