"""SoloEnv: one seat, one rollout an episode, in this process.

verifiers' own default is a remote sandbox and a Python process per rollout; a chat rollout needs neither.
"""

import verifiers.v1 as vf
from verifiers.v1.runtimes import Runtime, SubprocessConfig, make_runtime


class SoloEnvConfig(vf.EnvConfig):
    """The single seat, pinned to this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=SubprocessConfig())
    """The seat under evaluation or training."""


class SoloEnv(vf.Env[SoloEnvConfig]):
    """Plays every task with one agent.

    A rollout without tools never touches a file system, so those share one runtime that is never started:
    a directory made and removed per rollout costs more than everything else such a rollout does there.
    """

    _shared_box: Runtime | None = None

    async def start(self) -> None:
        self._shared_box = make_runtime(SubprocessConfig(), name="sv-solo")

    async def stop(self) -> None:
        self._shared_box = None

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        on_this_machine = isinstance(agents.agent.runtime_config, SubprocessConfig)
        needs_files = bool(task.toolsets(task.config)) or agents.agent.harness.EXECUTES_CODE
        box = self._shared_box if on_this_machine and not needs_files else None
        await agents.agent.run(task, runtime=box)
