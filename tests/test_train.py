"""The loop: device and seed from the environment, history, exact resume, interrupt, and errors in words."""

import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.checkpoint import load_run, moment_of, save_run
from course_lib.train import cosine, fit, pick_device, seed_everything, to_device

CPU = torch.device("cpu")


class Noisy(nn.Module):
    """Dropout draws from the global generator, so a resume that forgets it cannot be exact."""

    def __init__(self, d=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def forward(self, x):
        return self.net(x)


def squared_error(model, batch):
    x, y = batch
    return (model(x) - y).square().mean()


def drawn_batches():
    while True:
        x = torch.randn(16, 4)
        yield x, x.sum(1, keepdim=True)


def fixed_batches(n=1):
    g = torch.Generator().manual_seed(3)
    xs = [torch.randn(16, 4, generator=g) for _ in range(n)]
    return itertools.cycle([(x, x.sum(1, keepdim=True)) for x in xs])


def run(steps, **options):
    seed_everything(5)
    model = Noisy()
    history = fit(model, drawn_batches(), squared_error, device=CPU, progress=False, **({"steps": steps} | options))
    return model, history


def test_learns_one_batch_by_heart():
    seed_everything(0)
    model = nn.Linear(4, 1)
    history = fit(model, fixed_batches(), squared_error, steps=400, lr=0.05, device=CPU, progress=False)
    assert history.loss[-1] < 1e-3 < history.loss[0]
    assert len(history.loss) == len(history.grad_norm) == len(history.lr) == 400 and history.seconds > 0


def test_same_seed_same_run_other_seed_another():
    assert run(5)[1].loss == run(5)[1].loss
    seed_everything(6)
    assert fit(Noisy(), drawn_batches(), squared_error, steps=5, device=CPU, progress=False).loss != run(5)[1].loss


def test_resume_is_exact(tmp_path):
    whole_model, whole = run(20)
    file = tmp_path / "run.safetensors"

    def stopped():
        for step, batch in enumerate(drawn_batches()):
            if step == 8:
                raise KeyboardInterrupt
            yield batch

    seed_everything(5)
    first = fit(Noisy(), stopped(), squared_error, steps=20, device=CPU, progress=False, checkpoint=file)
    assert first.interrupted and len(first.loss) == 8
    resumed_model, resumed = run(20, checkpoint=file)
    assert resumed.loss == whole.loss and not resumed.interrupted and resumed.lr == whole.lr
    for ours, theirs in zip(resumed_model.parameters(), whole_model.parameters(), strict=True):
        assert_close(ours, theirs, atol=0, rtol=0)
    again_model, again = run(20, checkpoint=file)  # finished already: nothing more is trained
    assert again.loss == whole.loss


def test_interrupt_keeps_model_and_history(capsys):
    def batches():
        yield from itertools.islice(drawn_batches(), 3)
        raise KeyboardInterrupt

    model = Noisy()
    before = [p.clone() for p in model.parameters()]
    history = fit(model, batches(), squared_error, steps=10, device=CPU, progress=False)
    assert history.interrupted and len(history.loss) == 3 and not model.training
    assert any((p != q).any() for p, q in zip(model.parameters(), before, strict=True))
    assert "Stopped after 3 of 10 steps" in capsys.readouterr().out


def test_non_finite_loss_stops_in_words_and_spares_the_weights():
    model = nn.Linear(4, 1)
    good = next(drawn_batches())
    bad = (good[0] * float("nan"), good[1])
    with pytest.raises(FloatingPointError, match=r"Step 2: loss nan.*learning rate") as caught:
        fit(model, iter([good, good, bad]), squared_error, steps=3, device=CPU, progress=False)
    assert len(caught.value.history.loss) == 2
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_batches_that_run_out_are_told():
    with pytest.raises(ValueError, match="ran out after 2 of 5"):
        fit(nn.Linear(4, 1), itertools.islice(drawn_batches(), 2), squared_error, steps=5, device=CPU, progress=False)


def test_clip_bounds_the_step_and_the_history_keeps_the_true_norm():
    x, y = torch.full((4, 4), 100.0), torch.zeros(4, 1)
    model = nn.Linear(4, 1)
    history = fit(model, itertools.cycle([(x, y)]), squared_error, steps=1, clip=1.0, device=CPU, progress=False)
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    assert history.grad_norm[0] > 100 and norm <= 1.0 + 1e-5


def test_watch_sees_the_first_the_chosen_and_the_last_step():
    model, modes = nn.Linear(4, 1), []

    def watch(step):
        modes.append(model.training)
        return step * 10

    history = fit(model, drawn_batches(), squared_error, steps=7, watch=watch, watch_every=3, device=CPU,
                  progress=False)
    assert history.watched == [(0, 0), (3, 30), (6, 60), (7, 70)] and not any(modes)


def test_cosine_warms_up_and_falls_to_a_tenth():
    factors = [cosine(step, 100, warmup=10) for step in range(101)]
    assert factors[0] < 0.1 and abs(max(factors) - 1) < 1e-12 and factors.index(max(factors)) == 10
    assert abs(factors[100] - 0.1) < 1e-12 and factors[10:] == sorted(factors[10:], reverse=True)


def test_to_device_keeps_the_form_of_a_batch():
    batch = {"x": torch.zeros(2), "parts": (torch.ones(1), ["a", torch.ones(3)]), "name": "n"}
    moved = to_device(batch, torch.device("meta"))
    assert moved["x"].is_meta and moved["parts"][0].is_meta and moved["parts"][1][1].is_meta and moved["name"] == "n"


@pytest.mark.parametrize("wrong", ["gpu", "cpu0", "cuda:x", "cuda:", "cuda:99", "cpu:1"])
def test_a_wrong_device_is_refused_in_words(monkeypatch, wrong):
    monkeypatch.setenv("COURSE_DEVICE", wrong)
    with pytest.raises(ValueError, match=f"COURSE_DEVICE='{wrong}'.*unset it"):
        pick_device()


def test_device_from_the_environment(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", " CPU ")
    assert pick_device() == CPU
    monkeypatch.delenv("COURSE_DEVICE")
    assert pick_device().type in ("cuda", "mps", "cpu")


def test_seed_from_the_environment(monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "7")
    assert seed_everything() == 7
    first = torch.rand(3)
    assert seed_everything(7) == 7 and torch.equal(torch.rand(3), first)
    monkeypatch.delenv("COURSE_SEED")
    assert seed_everything() == 0
    for wrong in ("seven", "-1", "1.5", str(2**32)):
        monkeypatch.setenv("COURSE_SEED", wrong)
        with pytest.raises(ValueError, match="COURSE_SEED"):
            seed_everything()


def test_a_checkpoint_that_is_none_is_refused_in_words(tmp_path):
    from safetensors.torch import save_file

    damaged, foreign = tmp_path / "damaged", tmp_path / "foreign"
    damaged.write_bytes(b"\x00" * 40)
    save_file({"w": torch.zeros(2)}, foreign)
    for file, words in ((damaged, "no readable checkpoint"), (foreign, "no training run of this course")):
        with pytest.raises(ValueError, match=words):
            load_run(file)


def test_a_checkpoint_of_another_model_is_refused_and_changes_nothing(tmp_path):
    run(2, checkpoint=tmp_path / "run")
    other = Noisy(5)
    before = [p.clone() for p in other.parameters()]
    _, restore = load_run(tmp_path / "run")
    with pytest.raises(ValueError, match="another model: net.0.weight"):
        restore(other, torch.optim.AdamW(other.parameters()), squared_error)
    assert all(torch.equal(p, q) for p, q in zip(other.parameters(), before, strict=True))


def test_a_failed_write_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    file = tmp_path / "run"
    model, _ = run(2, checkpoint=file)
    old = file.read_bytes()

    def full_disk(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("course_lib.checkpoint.save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_run(file, model, torch.optim.AdamW(model.parameters()), moment_of(squared_error), {})
    assert file.read_bytes() == old and list(tmp_path.iterdir()) == [file]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_trains_on_cuda_in_bf16_and_resumes_there(tmp_path):
    seed_everything(0)
    model = nn.Linear(4, 1)
    history = fit(model, fixed_batches(), squared_error, steps=300, lr=0.05, device=torch.device("cuda"),
                  progress=False, checkpoint=tmp_path / "run")
    assert history.loss[-1] < 1e-2 and next(model.parameters()).is_cuda
