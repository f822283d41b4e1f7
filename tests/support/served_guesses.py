"""A workload whose server draws at random, as the text of a module beside ``my_judge.py``."""

GUESSING = '''
"""The judge of the example, who is not sure: no two of its answers are alike."""

import dataclasses

import numpy as np
from my_judge import Judge
from my_judge import workload as judged


class Guessing(Judge):
    def setup(self, context):
        super().setup(context)
        self.chance = np.random.default_rng()

    def answer(self, asked):
        sure = super().answer(asked)["score"]
        return {"score": sure + self.chance.random(len(sure), np.float32)}


def workload(total_steps: int = 100_000):
    return dataclasses.replace(judged(total_steps=total_steps), servers={"judge": Guessing()})
'''
