"""Converts guides (models that predict the mean) to flat arrays, and reads and checks these."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ontarget._typing import AnyArray
from ontarget.models.forest._binning_kernel import MISSING, BinTable
from ontarget.models.forest._store import check_bins
from ontarget.models.guided._boosting_kernel import BoostedGuide
from ontarget.models.guided._guides_kernel import TERM_WIDTH, Guides, LinearGuide
from ontarget.models.stored import flat_array, partitions, require, rises_within

# Guides are in units of the outcome's spread, so theirs are small; beyond this a sum may overflow.
_LARGEST = 1e100


def guides_to_arrays(guides: Guides) -> dict[str, AnyArray]:
    """The models of the mean (ridge regression and boosted trees) as flat arrays by name."""
    linear, boosted = guides
    return {
        "guide_terms": linear.terms,
        "guide_category_start": linear.start,
        "guide_categories": linear.categories,
        "guide_effects": linear.effects,
        "guide_edges": boosted.bins.edges,
        "guide_edge_start": boosted.bins.start,
        "guide_categorical": boosted.bins.categorical,
        "guide_category_order": boosted.bins.order,
        "guide_nodes": boosted.nodes,
        "guide_values": boosted.values,
    }


def guides_from_arrays(arrays: Mapping[str, AnyArray]) -> Guides:
    """The models of the mean (ridge regression and boosted trees) in these arrays, after checks."""
    linear = LinearGuide(
        terms=flat_array(arrays, "guide_terms", np.float64),
        start=flat_array(arrays, "guide_category_start", np.int64),
        categories=flat_array(arrays, "guide_categories", np.float64),
        effects=flat_array(arrays, "guide_effects", np.float64),
    )
    boosted = BoostedGuide(
        bins=BinTable(
            edges=flat_array(arrays, "guide_edges", np.float64),
            start=flat_array(arrays, "guide_edge_start", np.int64),
            categorical=flat_array(arrays, "guide_categorical", np.bool_),
            order=flat_array(arrays, "guide_category_order", np.uint16),
        ),
        nodes=flat_array(arrays, "guide_nodes", np.int64),
        values=flat_array(arrays, "guide_values", np.float64),
    )
    guides = Guides(linear, boosted)
    _check_linear(linear)
    if any(array.size for array in (*boosted.bins, boosted.nodes, boosted.values)):
        _check_boosted(boosted)
        alike = width_of(guides) == boosted.bins.categorical.size
        require(alike, "the ridge regression and the boosted trees need the same features")
    return guides


def width_of(guides: Guides) -> int:
    """How many features the guides (models of the mean) read."""
    return guides.linear.start.size - 1


def _check_linear(guide: LinearGuide) -> None:
    start, categories = guide.start, guide.categories
    require(
        start.size > 1 and partitions(start, categories.size),
        "guide_category_start needs to rise from 0 to the number of categories",
    )
    n_features = start.size - 1
    require(
        guide.terms.size == TERM_WIDTH * n_features + 1,
        "guide_terms needs four numbers per feature and one more",
    )
    require(bool(np.isfinite(guide.terms).all()), "guide_terms need finite numbers")
    require(guide.effects.shape == categories.shape, "guide_effects needs one number per category")
    slopes = guide.terms[2::TERM_WIDTH], guide.terms[3::TERM_WIDTH], guide.terms[-1:]
    small = all((np.abs(part) <= _LARGEST).all() for part in (*slopes, guide.effects))
    require(small, f"guide_terms and guide_effects need numbers up to {_LARGEST:g} in size")
    require(bool(np.isfinite(categories).all()), "guide_categories need finite numbers")
    require(rises_within(categories, start), "guide_categories need to rise within a feature")


def _check_boosted(guide: BoostedGuide) -> None:
    nodes, values = guide.nodes, guide.values
    n_trees = values.size - nodes.size
    n_leaves = values.size // n_trees if n_trees > 0 else 0
    whole = n_leaves > 1 and n_leaves & (n_leaves - 1) == 0 and n_leaves * n_trees == values.size
    require(whole, "guide_nodes and guide_values need to form complete trees")
    small = bool((np.abs(values) <= _LARGEST).all())  # NaN is not
    require(small, f"guide_values need numbers up to {_LARGEST:g} in size")
    check_bins(guide.bins)
    slot, code = nodes >> 48, (nodes >> 32) & MISSING
    inside = (nodes >= 0) & (slot < 2 * guide.bins.categorical.size) & (code < MISSING)
    require(bool(inside.all()), "guide_nodes need features and codes that exist")
