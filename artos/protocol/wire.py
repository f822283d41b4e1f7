"""The names that messages had before each conversation got a file of its own."""

# ruff: noqa: F403, F405
from artos.protocol.codec import *
from artos.protocol.control import *
from artos.protocol.data import *
from artos.protocol.envelope import *
from artos.protocol.message import *
from artos.protocol.steering import *

Seal = Envelope
Said = ActorReport
Bring = ReadPiece
Piece = BundlePiece
Unfit = BundleRejected
ReadLog = ReadNodeLog
Fetch = FetchArchive
Arrivals = RowsTaken
Listening = ReplayUp
