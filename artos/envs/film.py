"""Videos of episodes, as GIF: Pillow writes it, which comes with Matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from artos.envs.make import (
    AnyVectorEnv,
    accepted,
    factory_of,
    full_address,
    is_atari,
    is_factory,
    layers_of,
    make_vector,
    selection,
)
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import EnvSpec, Part
from artos.envs.stepper import Parts, Step
from artos.errors import Refused
from artos.specs.address import parted

Picture = NDArray[np.uint8]

_DRAWN = "rgb_array"
_FRAMES_A_SECOND = 30
_SHORTEST = 20
"""Milliseconds for which a picture is shown; browsers slow down what is faster."""
_MOST_BYTES = 2**28
"""For the pictures of one episode; those beyond it are left out."""
_SMALLEST = 240
"""Pixels of a side: smaller pictures are enlarged."""


class Film:
    """The pictures of one episode, at least ``_SHORTEST`` milliseconds each."""

    def __init__(self, frames_a_second: float) -> None:
        self._pause = max(_SHORTEST, round(100 / frames_a_second) * 10)
        self._pictures: list[Image.Image] = []
        self._bytes = 0

    def add(self, picture: Picture) -> None:
        """Add an (H, W, 3) or (H, W) picture, if there is room."""
        if self._bytes < _MOST_BYTES:
            image = Image.fromarray(picture)
            scale = -(-_SMALLEST // max(image.size))
            sides = (image.width * scale, image.height * scale)
            image = image.resize(sides, Image.Resampling.NEAREST)
            if image.mode != "L":
                image = image.quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            self._pictures.append(image)
            self._bytes += image.width * image.height

    def write(self, path: Path) -> None:
        """Write a GIF that repeats forever."""
        first, *rest = self._pictures
        first.save(path, save_all=True, append_images=rest, duration=self._pause, loop=0)


class Studio:
    """Writes ``episode-K.gif`` of each of the first ``episodes`` episodes into ``folder``."""

    def __init__(self, folder: Path, episodes: int, envs: int) -> None:
        self.folder, self._episodes, self._envs = folder, episodes, envs
        self._over = [0] * envs
        self.written: list[str] = []

    def wants(self, env: int) -> bool:
        """Whether the episode that an environment plays now is to be filmed."""
        return self._number(env) < self._episodes

    def _number(self, env: int) -> int:
        return env + self._over[env] * self._envs

    def end(self, env: int, film: Film) -> None:
        """An environment's episode is over."""
        if self.wants(env):
            digits = len(str(self._episodes - 1))
            path = self.folder / f"episode-{self._number(env):0{digits}}.gif"
            film.write(path)
            self.written.append(str(path))
        self._over[env] += 1


class Camera(gym.Wrapper[Any, Any, Any, Any]):
    """Films an environment that can draw itself, up to the last picture of each episode."""

    def __init__(self, env: gym.Env[Any, Any], number: int, studio: Studio) -> None:
        super().__init__(env)
        self._number, self._studio = number, studio
        self._speed = float(env.metadata.get("render_fps") or _FRAMES_A_SECOND)
        self._film = Film(self._speed)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, and begin a film."""
        found = super().reset(**options)
        self._film = Film(self._speed)
        self._shoot()
        return found

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment, and add a picture; the film ends with the episode."""
        found = super().step(action)
        self._shoot()
        if found[2] or found[3]:
            self._studio.end(self._number, self._film)
        return found

    def _shoot(self) -> None:
        if self._studio.wants(self._number):
            self._film.add(drawn(self.env))


class ObservationCamera:
    """Films what the policy sees, where an environment shows pictures but cannot draw itself."""

    def __init__(self, part: Part, studio: Studio) -> None:
        self._part, self._studio = part, studio
        self._films: dict[int, Film] = {}

    def see(self, seen: Step | Parts) -> None:
        """Take pictures from the first observations, or from a step."""
        if not isinstance(seen, Step):
            self._films = {env: self._begun(seen, env) for env in range(len(seen[self._part.name]))}
            return
        ended = [] if seen.ended is None else seen.ended.tolist()
        for at, env in enumerate(ended):
            assert seen.final is not None
            self._films[env].add(self._picture(seen.final[self._part.name][at]))
            self._studio.end(env, self._films[env])
        for env, film in self._films.items():
            if env in ended or not seen.valid[env]:
                self._films[env] = self._begun(seen.obs, env)
            elif self._studio.wants(env):
                film.add(self._picture(seen.obs[self._part.name][env]))

    def _begun(self, obs: Parts, env: int) -> Film:
        film = Film(_FRAMES_A_SECOND)
        film.add(self._picture(obs[self._part.name][env]))
        return film

    def _picture(self, value: NDArray[Any]) -> Picture:
        frame = value[-1] if self._part.stack > 1 else value
        if frame.ndim == 3 and frame.shape[0] in (1, 3):
            frame = np.moveaxis(frame, 0, -1)
        return np.ascontiguousarray(frame[..., 0] if frame.shape[-1] == 1 else frame)


def _is_picture(part: Part) -> bool:
    sides = part.shape
    return part.dtype == "uint8" and (
        len(sides) == 2 or (len(sides) == 3 and (sides[0] in (1, 3) or sides[2] in (1, 3)))
    )


def filmed(
    env: str, seed: int, spec: EnvSpec, studio: Studio, envs: int
) -> tuple[AnyVectorEnv, Callable[[Step | Parts], None]]:
    """Make ``envs`` environments that are filmed; the function that is returned must see each step.

    Raises:
        Refused: they can neither draw themselves nor show pictures, with the reason.
    """
    why = "it is a vector environment"
    if not (env.startswith("vector:") or is_atari(env)):
        try:
            makers = [partial(_camera, env, seed, number, studio) for number in range(envs)]
            return SerialVectorEnv(makers), lambda seen: None
        except _CannotDraw as error:
            why = str(error)
    pictures = [part for part in spec.parts if _is_picture(part)]
    if not pictures:
        raise Refused(
            [
                f"environment {env} cannot be filmed: {why}; it shows no pictures either. Let it "
                f"draw itself with render_mode={_DRAWN!r}, a keyword that a factory may accept"
            ]
        )
    return make_vector(env, envs, seed), ObservationCamera(pictures[0], studio).see


class _CannotDraw(Exception):
    """Why an environment cannot draw itself."""


def _camera(env: str, seed: int, number: int, studio: Studio) -> Camera:
    """Make an environment that draws itself, and film it."""
    bare, layers = layers_of(full_address(env))
    name, arguments = parted(selection(bare)[0])
    if is_factory(env):
        factory = factory_of(env)
        offered: dict[str, Any] = {"seed": seed + number, "num_envs": 1, "render_mode": _DRAWN}
        made = factory(**(accepted(factory, offered) | arguments))
        if not isinstance(made, gym.Env):
            with suppress(AttributeError):
                made.close()
            raise _CannotDraw("it is a vector environment")
    else:
        make_vector(env, 1, seed + number).close()  # refuses with a reason what cannot be made
        drawing: dict[str, Any] = arguments | {"render_mode": _DRAWN}
        made = gym.make(name, disable_env_checker=True, **drawing)
    made = layers.around(bare, made)
    try:
        made.reset(seed=seed + number)
        drawn(made)
    except Exception as error:
        made.close()
        known = isinstance(error, _CannotDraw)
        raise _CannotDraw(str(error) if known else f"{type(error).__name__}: {error}") from error
    return Camera(made, number, studio)


def drawn(env: gym.Env[Any, Any]) -> Picture:
    """What an environment draws, (H, W, 3) uint8."""
    picture: Any = env.render()
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8:
        raise _CannotDraw(f"it renders {type(picture).__name__}, not an array of uint8")
    return picture
