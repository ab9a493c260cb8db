"""What files of tests are made of: test cases, comparisons, counts of what was compiled."""

import unittest

import pytest

import tocha
import tocha._dynamo.test_case
import tocha._inductor.exc
import tocha._inductor.test_case
from tocha._dynamo import config, debug_utils, testing, utils
from tocha._inductor import metrics
from tocha._inductor import utils as inductor_utils
from tocha.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, subtest


def outcome(case: type) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_the_compiler_is_reset_between_tests():
    counter = testing.CompileCounter()
    compiled = tocha.compile(lambda x: x + 1, backend=counter)
    counts = []

    class Case(tocha._dynamo.test_case.TestCase):
        def test_first(self):
            compiled(tocha.ones(2))
            counts.append((counter.frame_count, utils.counters["stats"]["unique_graphs"]))

        test_second = test_first

    assert outcome(Case).wasSuccessful()
    assert counts == [(1, 1), (2, 1)]


def test_errors_of_the_compiler_are_errors_of_the_test():
    def broken(graph, inputs):
        raise ValueError

    class Case(tocha._dynamo.test_case.TestCase):
        def test_it(self):
            tocha.compile(lambda x: x + 1, backend=broken)(tocha.ones(2))

    with config.patch(suppress_errors=True):
        assert len(outcome(Case).errors) == 1
        assert config.suppress_errors


def test_each_test_of_the_compiler_has_a_cache_of_its_own():
    hits = []

    class Case(tocha._inductor.test_case.TestCase):
        def test_first(self):
            tocha.compile(lambda x: x.sin() + 3)(tocha.ones(5))
            hits.append(utils.counters["inductor"]["fxgraph_cache_hit"])

        test_second = test_first

    assert outcome(Case).wasSuccessful() and hits == [0, 0]


def test_a_case_compares_tensors():
    case = TestCase()
    for x, y in [
        (1, 1.0), (True, 1), (tocha.ones(2), [1.0, 1.0]), (tocha.ones(1), 1), ([tocha.ones(1)], (tocha.ones(1),)),
        ({"a": tocha.ones(1)}, {"a": tocha.ones(1) + 1e-7}), (float("nan"), float("nan")), (None, None), (range(2), [0, 1]), ({1}, {1}),
    ]:  # fmt: skip
        case.assertEqual(x, y)
    for x, y in [
        (tocha.ones(2), tocha.ones(2) + 1),
        ("a", "b"),
        (tocha.ones(2), tocha.ones(2).double()),
        ("x", 1),
        ([1], [1, 2]),
    ]:
        case.assertNotEqual(x, y)
        with pytest.raises(AssertionError):
            case.assertEqual(x, y)
    case.assertEqual(tocha.ones(2), tocha.ones(2).double(), exact_dtype=False)
    case.assertEqual(1, 2, atol=3, rtol=0)
    with pytest.raises(AssertionError, match=r"(?s)not close.*hello"):
        case.assertEqual(tocha.ones(2), tocha.zeros(2), msg="hello")
    with pytest.raises(AssertionError, match=r"(?s)'a' != 'b'.*item \[1\]"):
        case.assertEqual([1, "a"], [1, "b"])
    case.assertExpectedInline("x\n", "x\n")


def test_tests_of_several_arguments():
    seen = []

    @instantiate_parametrized_tests
    class Case(TestCase):
        @parametrize("x,y", [(1, 2), subtest((3, 4), name="named")])
        @parametrize("z", [True, None, 2.5, tocha.float32])
        def test_it(self, x, y, z):
            seen.append((x, y, z))

    names = {n for n in dir(Case) if n.startswith("test_")}
    assert {"test_it_x_1_y_2_z_True", "test_it_named_z1", "test_it_named_z_2_5", "test_it_named_float32"} < names
    assert len(names) == 8
    assert outcome(Case).wasSuccessful() and (3, 4, None) in seen and len(seen) == 8


def test_tests_under_other_settings():
    class Case(tocha._dynamo.test_case.TestCase):
        def test_ops(self):
            testing.standard_test(self, lambda a, b: (a + b).sin(), 2, expected_ops=2)

        @testing.expectedFailureDynamic
        def test_static(self):
            self.assertFalse(testing.check_dynamic_shape_capture())

    made = testing.make_test_cls_with_patches(
        Case, "Dynamic", "_dynamic", (config, "assume_static_by_default", False), xfail_prop="_expected_failure_dynamic"
    )
    assert made.__name__ == "DynamicCase" and hasattr(made, "test_ops_dynamic")
    assert outcome(Case).wasSuccessful()
    result = outcome(made)
    assert result.wasSuccessful() and len(result.expectedFailures) == 1


def test_same():
    same, one = utils.same, tocha.ones(50)
    assert same(one, one + 1e-5) and not same(one, one + 1e-2) and not same(one, one.double())
    assert same(one, one.double(), exact_dtype=False) and same(1, 1.0) and same((one, {"a": one}), [one, {"a": one}])
    assert same(one * 3, one * 3.0006, one.double() * 3.0002, tol=1e-5)  # both are off, by about as much
    assert not same(one * 3, one * 3.0010, one.double() * 3.0002, tol=1e-5)
    assert same(one, one * 1.1, cos_similarity=True) and not same(one, -one, cos_similarity=True)
    nan = tocha.tensor([float("nan")])
    assert same(nan, nan, equal_nan=True) and not same(nan, nan)
    with pytest.raises(AssertionError, match="keys mismatch"):
        same({"a": 1}, {"b": 1})
    with pytest.raises(RuntimeError, match="unsupported type: object"):
        same(object(), 1)


def test_copies_of_inputs():
    gaps = tocha.ones(4, 4)[:, ::2].requires_grad_()
    assert utils.clone_input(gaps).stride() == (4, 2) and utils.clone_input(gaps).requires_grad
    assert not utils.clone_input(gaps * 2).requires_grad
    assert utils.clone_input(tocha.ones(1, 3).expand(2, 3)).stride() == (3, 1)
    assert utils.clone_inputs([tocha.ones(1), 3])[1] == 3
    with pytest.raises(AssertionError, match="Expected value to be a"):
        utils.clone_inputs({"a": 3})


def test_counts_of_kernels():
    tocha._dynamo.reset()
    metrics.reset()
    helper = metrics.CachedMetricsHelper()
    compiled = tocha.compile(lambda x: (x.sin() + 1).cos())
    _, kernels = inductor_utils.run_and_get_kernels(compiled, tocha.ones(1000))
    assert len(kernels) == 1 == metrics.generated_kernel_count and "sin" in kernels[0]
    assert metrics.num_bytes_accessed == 8000 and metrics.ir_nodes_pre_fusion >= 1
    assert helper.get_deltas().num_bytes_accessed == 8000
    metrics.reset()
    assert metrics.num_bytes_accessed == 0


def test_programs_from_the_cache_are_counted():
    def counts():
        tocha._dynamo.reset()
        metrics.reset()
        tocha.compile(lambda x: (x.cos() + 1).sum())(tocha.ones(1000))
        return [getattr(metrics, name) for name in metrics.get_metric_fields()]

    with inductor_utils.fresh_cache():
        made = counts()
        before = utils.counters["inductor"]["fxgraph_cache_hit"]
        assert counts() == made and made[0] >= 1
        assert utils.counters["inductor"]["fxgraph_cache_hit"] == before + 1


def test_a_graph_and_what_is_made_of_it():
    class Model(tocha.nn.Module):
        def forward(self, x):
            return x.sin() * 2

    class Other(tocha.nn.Module):
        def forward(self, x):
            return x.cos() * 2

    args = [tocha.randn(4, requires_grad=True)]
    assert debug_utils.same_two_models(Model(), Model(), args) and not debug_utils.same_two_models(
        Model(), Other(), args
    )
    _, _, grads = debug_utils.run_fwd_maybe_bwd(Model(), args)
    assert grads[0] is not None and args[0].grad is None
    assert debug_utils.backend_accuracy_fails(Model(), args, lambda gm, inputs: Other())


def test_errors_of_the_backend_by_their_name():
    def fails(graph):
        raise ValueError("the pass fails")

    tocha._dynamo.reset()
    compiled = tocha.compile(lambda x: x + 1, options={"post_grad_custom_post_pass": fails})
    with pytest.raises(tocha._inductor.exc.InductorError, match="the pass fails"):
        compiled(tocha.ones(2))
