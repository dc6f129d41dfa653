"""The functions that the notebooks define, on other data than theirs: the cells tagged `model`.

They need NumPy and fungrad only. Gradients against formulas and against sums over all cases; what
stands behind a stop keeps no bytes.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fungrad as fg
from notebooks import held_bytes, model


def close(ours, theirs, tolerance=1e-12):
    """Equal trees, relative to the largest entry of each leaf."""
    leaves = zip(fg.tree_leaves(ours), fg.tree_leaves(theirs), strict=True)
    return all(np.max(np.abs(a - b)) <= tolerance * np.max(np.abs(b)) for a, b in leaves)


def generator():
    return np.random.default_rng(11)


# --- 1: softmax -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("logits", [[700.0, 900.0, 900.0], [-1e6, 3.0, 2.0], [5.0] * 4])
def test_softmax_to_the_second_order(logits, dtype):
    m, z = model(1), np.array(logits, dtype)
    tolerance = 20 * np.finfo(dtype).eps
    gradient, hessian = fg.grad(m.cross_entropy)(z, 1), fg.hessian(m.cross_entropy)(z, 1)
    assert gradient.dtype == hessian.dtype == dtype
    assert np.allclose(gradient, m.gradient_by_hand(z, 1), rtol=0, atol=tolerance)
    assert np.allclose(hessian, m.hessian_by_hand(z), rtol=0, atol=tolerance)


def test_softmax_without_the_stop_takes_more_equations():
    m = model(1)
    z = np.arange(3.0)
    few, many = (
        len(fg.make_jaxpr(fg.grad(f))(z, 1).equations) for f in (m.cross_entropy, m.unstopped)
    )
    assert few < many
    right = fg.grad(m.sharpness)(z)
    assert not np.allclose(fg.grad(m.sharpness_with_a_wrong_stop)(z), right, atol=0.1)


# --- 2 and 3: EM ----------------------------------------------------------------------


@pytest.fixture
def mixture():
    m, draw = model(2), generator()
    x = np.concatenate([draw.normal(size=(40, 2)), draw.normal(2.0, 0.5, size=(30, 2))])
    spread = np.array([np.eye(2), [[2.0, 0.3], [0.3, 1.0]]])
    start = m.from_moments(np.array([0.3, 0.7]), np.array([[0.0, 1.0], [1.0, 0.5]]), spread)
    return m, start, x


def test_the_mixtures_gradient_is_the_formula_and_fishers_identity(mixture):
    m, start, x = mixture
    by_hand = m.gradient_by_hand(start, x)
    assert close(fg.grad(m.expected)(start, x), by_hand)
    assert close(fg.grad(m.log_likelihood)(start, x), by_hand, 1e-11)
    assert not close(fg.grad(m.expected_unstopped)(start, x), by_hand, 0.05)


def test_the_m_step_by_gradients_is_the_closed_form_and_climbs(mixture):
    m, start, x = mixture
    found = m.m_step(start, x, 12)
    assert close(found, m.em_step_by_hand(start, x), 1e-9)
    shares, means, covariances = m.moments(start)
    assert close(
        m.moments(m.from_moments(shares, means, covariances)), (shares, means, covariances)
    )
    one = m.newton_step(lambda t: m.expected(t, x, at=start), start)
    for after in (found, one):
        assert m.log_likelihood(after, x) > m.log_likelihood(start, x)


@pytest.mark.slow
def test_the_stopped_e_step_keeps_nothing(mixture):
    m, start, x = mixture

    def given(theta):
        return np.sum(np.array(m.responsibilities(start, x)) * m.log_joint(theta, x))

    assert held_bytes(lambda t: m.expected(t, x), start) == held_bytes(given, start)
    assert held_bytes(lambda t: m.expected_unstopped(t, x), start) > held_bytes(given, start)
    (stop,) = fg.why(m.expected, argnums=0)(start, x).stops
    assert stop.name == "e_step" and stop.nbytes > 0


@pytest.fixture
def chain():
    m, draw = model(3), generator()
    theta = {
        "first": draw.normal(size=3),
        "transitions": draw.normal(size=(3, 3)),
        "means": draw.normal(size=3),
        "log_deviations": 0.3 * draw.normal(size=3),
    }
    return m, theta, draw.normal(size=6)


def test_the_evidence_and_the_posteriors_are_sums_over_all_paths(chain):
    m, theta, x = chain
    first, transitions, densities = (np.exp(score) for score in m.scores(theta, x))
    evidence, gamma, counts = 0.0, np.zeros((6, 3)), np.zeros((3, 3))
    for path in itertools.product(range(3), repeat=6):
        p = first[path[0]] * np.prod([densities[t, s] for t, s in enumerate(path)])
        p *= np.prod([transitions[a, b] for a, b in itertools.pairwise(path)])
        evidence += p
        gamma[range(6), path] += p
        for a, b in itertools.pairwise(path):
            counts[a, b] += p
    assert np.isclose(m.log_likelihood(theta, x), np.log(evidence), rtol=1e-12)
    expected = (gamma[0] / evidence, counts / evidence, gamma / evidence)
    assert close(m.posteriors(theta, x), expected)
    assert close(m.baum_welch_by_hand(theta, x), expected)


def test_the_chains_gradient_and_m_step(chain):
    m, theta, x = chain
    assert close(fg.grad(m.expected)(theta, x), fg.grad(m.log_likelihood)(theta, x), 1e-11)
    after = m.m_step_by_hand(m.posteriors(theta, x), x)
    assert m.log_likelihood(after, x) > m.log_likelihood(theta, x)
    e_step = m.posteriors(theta, x)
    at_top = fg.grad(
        lambda t: sum(np.sum(w * s) for w, s in zip(e_step, m.scores(t, x), strict=True))
    )(after)
    assert all(np.max(np.abs(slope)) < 1e-10 for slope in at_top.values())


@pytest.mark.slow
def test_the_chains_stopped_e_step_keeps_nothing(chain):
    m, theta, x = chain
    e_step = m.posteriors(theta, x)

    def given(t):
        pairs = zip([weight.copy() for weight in e_step], m.scores(t, x), strict=True)
        return sum(np.sum(weight * score) for weight, score in pairs)

    assert held_bytes(lambda t: m.expected(t, x), theta) == held_bytes(given, theta)


# --- 4: the Boltzmann machine ---------------------------------------------------------


@pytest.fixture
def machine():
    m, draw = model(4), generator()
    data = (draw.random((12, 6)) < 0.4).astype(float)
    w = m.initial(draw, data, 4)
    w = {name: part + 0.5 * draw.normal(size=part.shape) for name, part in w.items()}
    return m, w, data, draw


@pytest.mark.parametrize("steps", [1, 5])
def test_contrastive_divergence_is_positive_minus_negative_phase(machine, steps):
    m, w, data, draw = machine
    noise = m.draw_noise(draw, steps, 12, w)
    chains = (draw.random((12, 6)) < 0.5).astype(float)
    for start in (data, chains):
        found, moved = fg.grad(m.contrastive, has_aux=True)(w, data, start, noise)
        by_hand = m.gradient_by_hand(w, data, start, noise)
        assert close(found, by_hand) and set(np.unique(moved)) <= {0.0, 1.0}
        wrong, _ = fg.grad(m.contrastive_unstopped, has_aux=True)(w, data, start, noise)
        assert not close(wrong, by_hand, 0.1)


def test_the_partition_function_is_the_sum_over_all_images(machine):
    m, w, _, draw = machine
    images = np.array(list(itertools.product([0.0, 1.0], repeat=6)))
    exact = np.logaddexp.reduce(-m.free_energy(w, images))
    assert np.isclose(m.log_partition(w), exact, rtol=1e-12)
    assert abs(m.log_partition_annealed(w, w["visible"], draw) - exact) < 0.1


@pytest.mark.slow
def test_the_stopped_sampler_keeps_nothing_however_long(machine):
    m, w, data, draw = machine

    def given(w):
        return np.mean(m.free_energy(w, data)) - np.mean(m.free_energy(w, data.copy()))

    for steps in (1, 8):
        noise = m.draw_noise(draw, steps, 12, w)
        assert held_bytes(lambda w, n=noise: m.contrastive(w, data, data, n)[0], w) == held_bytes(
            given, w
        )


# --- 5: adversarial training ----------------------------------------------------------


@pytest.fixture
def attacked():
    m, draw = model(5), generator()
    images = draw.random((20, 9))
    labels = np.eye(3)[draw.integers(0, 3, 20)]
    return m, m.network(draw, (9, 8, 3)), images, labels


def test_the_robust_gradient_is_the_formula(attacked):
    m, _, images, labels = attacked
    single = m.network(generator(), (9, 3))
    found = fg.grad(m.robust_loss)(single, images, labels, 0.2)[0]
    assert close(found, m.gradient_by_hand(single[0], images, labels, 0.2))


@pytest.mark.parametrize("steps", [1, 7])
def test_an_attack_stays_in_its_box_and_harms(attacked, steps):
    m, w, images, labels = attacked
    moved = m.attack(w, images, labels, 0.1, steps)
    assert np.max(np.abs(moved - images)) <= 0.1 + 1e-15
    assert moved.min() >= 0.0 and moved.max() <= 1.0
    assert m.loss(w, moved, labels) > m.loss(w, images, labels)


@pytest.mark.slow
def test_the_stopped_attack_keeps_nothing_and_the_other_grows(attacked):
    m, w, images, labels = attacked
    held = {
        (steps, stop): held_bytes(
            lambda w, k=steps, s=stop: m.smooth_robust_loss(w, images, labels, k, s), w
        )
        for steps in (1, 6)
        for stop in (True, False)
    }
    moved = m.smooth_attack(w, images, labels, 6)
    given = held_bytes(lambda w: m.loss(w, moved.copy(), labels), w)
    assert held[1, True] == held[6, True] == given
    assert held[6, False] > 2 * held[1, False] > 2 * given


def test_at_the_inner_maximum_the_stop_changes_nothing(attacked):
    m, w, images, labels = attacked
    near, far = (
        [fg.grad(m.maximum_loss)(w, images, labels, k, 10.0, stop) for stop in (True, False)]
        for k in (40, 1)
    )
    assert close(*near, 1e-8) and not close(*far, 1e-4)


# --- 6: straight through --------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_straight_through_has_the_hard_value_and_the_soft_slope(bits):
    m, w = model(6), generator().normal(size=50)
    hard = m.levels(w, bits)
    assert len(np.unique(hard)) <= max(2, 2**bits - 1)
    assert np.array_equal(m.straight_through(hard, w), hard)
    slope = fg.grad(lambda w: np.sum(m.straight_through(m.levels(w, bits), np.sin(w)) ** 2))(w)
    assert np.allclose(slope, 2.0 * hard * np.cos(w), rtol=1e-14)


def test_without_it_a_network_is_cut():
    m, draw = model(6), generator()
    w = [{"slopes": draw.normal(size=s), "bias": np.zeros(s[1])} for s in ((4, 5), (5, 3))]
    images, labels = draw.normal(size=(7, 4)), np.eye(3)[draw.integers(0, 3, 7)]
    hard = fg.why(m.loss, argnums=0)(
        w, images, labels, m.as_it_is, lambda x: np.where(x >= 0, 1.0, -1.0)
    )
    assert hard["w[0]['slopes']"].cause == "cut"
    through = fg.grad(m.loss)(w, images, labels, m.as_it_is, m.binary_unit)
    assert np.max(np.abs(through[0]["slopes"])) > 1e-3


# --- 7: targets -----------------------------------------------------------------------


@pytest.mark.parametrize("stop", [True, False])
def test_both_gradients_of_the_difference_are_the_formulas(stop):
    m, draw = model(7), generator()
    features, following = draw.normal(size=(2, 15, 4))
    w, rewards = draw.normal(size=4), draw.normal(size=15)
    found = fg.grad(m.td_loss, argnums=1)(
        m.linear_value, w, features, rewards, following, 0.8, stop
    )
    assert close(found, m.td_gradient_by_hand(w, features, rewards, following, 0.8, stop))


@pytest.mark.slow
def test_a_target_network_has_no_gradient_and_the_target_no_memory():
    m, draw = model(7), generator()
    w = [{"slopes": draw.normal(size=s), "bias": np.zeros(s[1])} for s in ((2, 6), (6, 3))]
    states = draw.uniform(m.LOW, m.HIGH, (10, 2))
    moved = [m.drive(states, action) for action in (-1, 0, 1)]
    batch = (states, np.stack([s for s, _ in moved], 1), np.stack([d for _, d in moved], 1))
    slopes, of_target = fg.grad(m.q_loss, argnums=(0, 1))(w, w, batch)
    assert all(np.all(leaf == 0.0) for leaf in fg.tree_leaves(of_target))
    assert close(slopes, fg.grad(m.q_loss)(w, None, batch))
    sizes = [held_bytes(lambda w, s=s: m.q_loss(w, None, batch, s), w) for s in (True, False)]
    assert sizes[0] < sizes[1]


def test_the_car_keeps_to_its_valley_and_stops_at_the_top():
    m, draw = model(7), generator()
    states = draw.uniform(m.LOW, m.HIGH, (500, 2))
    for action in (-1, 0, 1):
        moved, done = m.drive(states, action)
        assert np.all(moved >= m.LOW) and np.all(moved <= m.HIGH)
        assert np.all(moved[done, 0] >= m.GOAL) and np.all(moved[~done, 0] < m.GOAL)
    assert m.drive(np.array([[0.45, 0.07]]), 1)[1].all()


# --- 8: a codebook --------------------------------------------------------------------


def test_each_term_of_the_codebook_moves_its_own_side():
    m, draw = model(8), generator()
    w, x = m.initial(draw, patch=6, hidden=5, size=3, entries=7), draw.normal(size=(30, 6))
    slopes = [fg.grad(lambda w, i=i: m.vq_terms(w, x)[i])(w) for i in range(3)]
    assert close(slopes[1]["book"], m.book_gradient_by_hand(w, x))
    reached = [
        {name for name in w if any(np.any(leaf != 0) for leaf in fg.tree_leaves(slope[name]))}
        for slope in slopes
    ]
    assert reached == [{"encoder", "decoder"}, {"book"}, {"encoder"}]
    assert np.allclose(m.vq_terms(w, x), m.vq_terms(w, x, m.not_stopped), rtol=1e-14)


# --- 9: score functions ---------------------------------------------------------------


def test_score_functions_are_their_formulas_and_exact_in_expectation():
    m, draw = model(9), generator()
    theta, everything = draw.normal(size=4), np.array(list(itertools.product([0, 1], repeat=4))) > 0
    losses = draw.normal(size=16)
    for f in (m.reinforce, m.dice):
        found = fg.grad(f)(theta, everything, losses, 0.3)
        assert close(found, m.reinforce_gradient_by_hand(theta, everything, losses, 0.3))
    assert close(
        fg.hessian(m.dice)(theta, everything, losses, 0.3),
        m.dice_hessian_by_hand(theta, everything, losses, 0.3),
    )
    weighted = 16 * np.exp(m.log_probability(theta, everything)) * losses
    truth = fg.hessian(m.exact)(theta, everything, losses)
    assert np.isclose(m.dice(theta, everything, weighted), m.exact(theta, everything, losses))
    assert close(fg.hessian(m.dice)(theta, everything, weighted), truth, 1e-11)
    assert not close(fg.hessian(m.reinforce)(theta, everything, weighted), truth, 0.1)


# --- 10: curvature --------------------------------------------------------------------


def test_the_hessian_falls_into_its_parts():
    m, draw = model(10), generator()
    theta, x = draw.normal(size=m.SIZE), draw.normal(size=(9, m.INPUTS))
    labels = np.eye(3)[draw.integers(0, 3, 9)]
    z, jacobian = m.logits_of(theta, x), fg.jacobian(m.logits_of)(theta, x)
    p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
    inner = np.einsum("nk,kl->nkl", p, np.eye(3)) - np.einsum("nk,nl->nkl", p, p)
    by_hand = np.einsum("nki,nkl,nlj->ij", jacobian, inner, jacobian) / 9
    part, own = (fg.hessian(f)(theta, x, labels) for f in (m.with_gauss_newton, m.models_own))
    assert close(part, by_hand, 1e-11)
    assert close(part + own, fg.hessian(m.loss)(theta, x, labels), 1e-11)
    for f in (m.with_gauss_newton, m.with_empirical_fisher, m.models_own):
        assert close(
            fg.value_and_grad(f)(theta, x, labels),
            fg.value_and_grad(m.loss)(theta, x, labels),
            1e-11,
        )


# --- 11: sparse derivatives -----------------------------------------------------------


def test_points_are_rotated_and_projected_by_cameras():
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    m, draw = model(11), generator()
    camera, point = draw.normal(size=(6, 9)), draw.normal(size=(6, 3))
    moved = rotation.from_rotvec(camera[:, :3]).apply(point) + camera[:, 3:6]
    flat = -moved[:, :2] / moved[:, 2:]
    square = np.sum(flat**2, axis=1, keepdims=True)
    lens = 1 + camera[:, 7:8] * square + camera[:, 8:] * square**2
    assert close(m.project(camera, point), camera[:, 6:7] * lens * flat, 1e-10)


@pytest.mark.filterwarnings("ignore:.*entries of the matrix")
def test_bundle_adjustment_has_twelve_entries_a_row():
    m, draw = model(11), generator()
    data = (np.array([0, 1, 1, 0]), np.array([2, 0, 1, 1]), draw.normal(size=(4, 2)), 2)
    x = draw.normal(size=27)
    sparse = fg.sparse.jacobian(m.residuals, check=True)
    assert close(sparse(x, *data).toarray(), fg.jacobian(m.residuals)(x, *data))
    assert np.all(np.diff(sparse.pattern(x, *data).indptr) == 12)


def test_the_reaction_keeps_what_it_neither_feeds_nor_kills():
    m, draw = model(11), generator()
    state = draw.random(2 * 5 * 5)
    slopes = m.reaction(0.0, state, 5, feed=0.0, kill=0.0)
    assert abs(np.sum(slopes)) < 1e-12
    u, v = state.reshape(2, 25)
    fed = m.reaction(0.0, state, 5, feed=0.1, kill=0.2) - slopes
    assert close(fed, np.concatenate([0.1 * (1 - u), -0.3 * v]), 1e-10)
    jacobian = fg.sparse.jacobian(m.reaction, argnums=1, check=True)(0.0, state, 5)
    assert close(jacobian.toarray(), fg.jacobian(m.reaction, 1)(0.0, state, 5))
