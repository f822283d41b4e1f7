"""Uses what was trained: python play.py RUN"""

import sys

import gymnasium as gym
import torch

import artos

trained = artos.load(sys.argv[1])

env = gym.make(trained.config["env"])
obs, _ = env.reset(seed=1)
total, over = 0.0, False
while not over:
    obs, reward, terminated, truncated, _ = env.step(trained.act(obs))
    total, over = total + float(reward), terminated or truncated
print("return", total)

found = trained.evaluate(4, seed=1)
print("returns", *found.returns, "mean", found.mean_return)

for name, weight in trained.state_dict().items():
    print(f"{name:17}{tuple(weight.shape)}")

trained.export("policy.pt2")
program = torch.export.load("policy.pt2").module()
batch = torch.randn(100, *obs.shape)
print("the program acts the same:", (program(batch).numpy() == trained.act(batch)).all())
