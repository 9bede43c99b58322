"""How the baselines stand to each other on public-mini; the environment card quotes the figures."""

import pytest

from sv_env_network_logs import rewards
from sv_env_network_logs.policies import policies
from sv_env_network_logs.public_mini import load_public_mini
from sv_env_network_logs.taskset import NetworkLogsTaskConfig, make_task


@pytest.mark.slow
def test_more_knowledge_earns_more() -> None:
    tasks = [make_task(item.example, item.view, NetworkLogsTaskConfig()) for item in load_public_mini()]
    means = []
    for name in ("constant-malicious", "always-abstain", "shallow", "boosted", "bayes", "reference"):
        player = policies()[name].make(1)
        paid = 0.0
        for task in tasks:
            reply = player.act(task.data, [{"role": "user", "content": task.data.prompt}], [])
            paid += rewards.grade(str(reply["content"]), task.data.truth).reward
        means.append(paid / len(tasks))
    assert means == sorted(set(means))
