"""First code inside: give up rights, set limits, say so, run the role."""

import os
import resource
import sys


def restrict(job):
    if job["user"] is not None:
        os.setgroups([])
        os.setresgid(job["user"], job["user"], job["user"])
        os.setresuid(job["user"], job["user"], job["user"])
    os.chdir(job["folder"])
    for name, (soft, hard) in job["resources"].items():
        try:
            kind = getattr(resource, f"RLIMIT_{name}")
            ceiling = resource.getrlimit(kind)[1]
            if ceiling != resource.RLIM_INFINITY:
                soft, hard = min(soft, ceiling), min(hard, ceiling)
            resource.setrlimit(kind, (soft, hard))
        except (AttributeError, OSError, ValueError):
            if job["strict"]:
                raise


def load(modules):
    """Make each module, under a package that relative imports find."""
    kind = type(sys)
    package = sys.modules["inside"] = kind("inside")
    package.__path__ = []
    for name, code in modules:
        module = sys.modules[f"inside.{name}"] = kind(f"inside.{name}")
        module.__package__ = "inside"
        exec(code, module.__dict__)
    return module


def main(job):
    restrict(job)
    role = load(job["modules"])
    os.write(job["ready"], b"r")
    os.close(job["ready"])
    role.main(**job["arguments"])
