"""The loss of advantage actor-critics: A2C (Mnih et al. 2016), IMPALA (Espeholt et al. 2018)."""

from __future__ import annotations

from torch import Tensor

from artos.losses.masked import masked_mean


def actor_critic_loss(
    log_probs: Tensor,
    advantages: Tensor,
    values: Tensor,
    targets: Tensor,
    entropy: Tensor,
    vf_coef: float,
    ent_coef: float,
    valid: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss to minimise and a report, over a batch of B rows (all arguments (B,)).

    ``−advantages · log π + vf_coef · ½ (targets − V)² − ent_coef · entropy``, as means over rows
    where ``valid`` is True: the three gradients of Espeholt et al. 2018, "V-trace actor-critic
    algorithm", and of Mnih et al. 2016, "Asynchronous advantage actor-critic".
    ``advantages`` and ``targets`` are constants. The report has ``policy_loss``, ``value_loss`` and
    ``entropy``, detached.
    """
    policy_loss = -masked_mean(advantages * log_probs, valid)
    value_loss = 0.5 * masked_mean((targets - values).square(), valid)
    mean_entropy = masked_mean(entropy, valid)
    loss = policy_loss + vf_coef * value_loss - ent_coef * mean_entropy
    report = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": mean_entropy}
    return loss, {name: value.detach() for name, value in report.items()}
