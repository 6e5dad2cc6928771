"""The paper's two domains as fast simulators, and the truth about them by nested rollouts."""
