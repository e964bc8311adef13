"""What the ranking loss asks for: a picture from six calls of its kernel.

Three labels with fixed scores. Every point of the triangle is one way of dividing a confidence of
1 among them; the colour is the ranking loss there, and the arrows point downhill along the
triangle. Labels with nearly equal scores pull their confidences together; labels whose scores are
far apart may have any confidences.

    python examples/plot_ranking_loss.py

writes ``ranking_loss.png`` into the current directory.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from hera_fast.kernels import ranking_gradients

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def confidences(n_steps):
    """All rows of three multiples of 1 / n_steps that sum to one."""
    i, j = np.meshgrid(np.arange(n_steps + 1), np.arange(n_steps + 1))
    inside = i + j <= n_steps
    i, j = i[inside], j[inside]
    return np.column_stack([i, j, n_steps - i - j]) / n_steps


def ranking(scores, P):
    """Loss and confidence gradient of every row of P for the same three scores."""
    Z = np.tile(scores, (len(P), 1))
    loss, score_gradient, confidence_gradient = np.empty(len(P)), np.empty_like(P), np.empty_like(P)
    ranking_gradients(Z, P, loss, score_gradient, confidence_gradient)
    return loss, confidence_gradient


def draw(axes, scores):
    P = confidences(120)
    loss, _ = ranking(scores, P)
    colors = axes.tricontourf(*(P @ CORNERS).T, loss, levels=np.linspace(0, 0.31, 32))

    P = confidences(12)
    P = P[(P > 0).all(axis=1)]
    _, gradient = ranking(scores, P)
    downhill = -(gradient - gradient.mean(axis=1, keepdims=True)) @ CORNERS
    axes.quiver(*(P @ CORNERS).T, *downhill.T, color="white", scale=5, width=0.007)

    for label, (corner, score) in enumerate(zip(CORNERS, scores, strict=True), start=1):
        side = "bottom" if label == 3 else "top"
        axes.text(*corner, f"label {label}, score {score:g}", ha="center", va=side)
    axes.set(aspect="equal", xlim=(-0.3, 1.3), ylim=(-0.1, 1.0))
    axes.axis("off")
    return colors


def main():
    figure, panels = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    titles = {
        "equal scores": (0.0, 0.0, 0.0),
        "label 3 stands apart": (0.0, 0.3, 2.0),
        "labels 1 and 3 are far apart": (-0.8, 0.0, 0.8),
    }
    for axes, (title, scores) in zip(panels, titles.items(), strict=True):
        colors = draw(axes, np.array(scores))
        axes.set_title(title)
    figure.colorbar(colors, ax=panels, label="ranking loss of the row", format="%.2f", shrink=0.8)
    figure.savefig("ranking_loss.png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
