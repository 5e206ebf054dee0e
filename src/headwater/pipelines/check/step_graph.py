"""Find duplicate names, unknown inputs and cycles of steps; sort the steps.

Names are compared without regard to case, as in SQL.
"""

import difflib
from collections.abc import Iterable, Iterator

from headwater.pipelines.spec.document import Place
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, StepSpec

Problem = tuple[Place, str]


def in_order(spec: PipelineSpec) -> list[StepSpec]:
    """Sort steps so that each follows its inputs. The graph must have no problems."""
    steps = {each.name.lower(): each for each in spec.steps}
    done: dict[str, StepSpec] = {}

    def visit(name: str) -> None:
        step = steps.get(name.lower())
        if step is None or step.name in done:
            return
        for each in step.inputs:
            visit(each)
        done[step.name] = step

    for name in steps:
        visit(name)
    return list(done.values())


def graph_problems(spec: PipelineSpec) -> Iterator[Problem]:
    """Yield duplicate names, unknown names and cycles."""
    names: dict[str, Place] = {}
    places = [(each.name, each.place) for each in spec.sources]
    places += [(each.name, each.place) for each in spec.steps]
    for name, place in places:
        if name.lower() in names:
            yield place, f"duplicate name of a source or step: {name}"
        names[name.lower()] = place
    for step in spec.steps:
        for name in step.inputs:
            if name.lower() not in names:
                place = (*step.place, _word(step))
                yield place, f"the step {step.name} reads {name}, {_unknown(name, names)}"
    for sink in spec.sinks:
        if sink.source and sink.source.lower() not in names:
            place = (*sink.place, "from")
            yield (
                place,
                f"the sink {sink.name} writes {sink.source}, {_unknown(sink.source, names)}",
            )
    yield from _cycles(spec)


def _word(step: StepSpec) -> str:
    if step.lookup is not None:
        return "lookup"
    return "sql" if step.sql is not None else "inputs"


def _unknown(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(names), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"which is neither a source nor a step{hint}"


def _cycles(spec: PipelineSpec) -> Iterator[Problem]:
    steps = {each.name.lower(): each for each in spec.steps}
    finished: set[str] = set()
    for start in steps:
        path: list[str] = []
        found = _cycle_from(start, steps, path, finished)
        if found is not None:
            cycle = " reads ".join(steps[name].name for name in found)
            yield steps[found[0]].place, f"steps form a cycle: {cycle}"


def _cycle_from(
    name: str, steps: dict[str, StepSpec], path: list[str], finished: set[str]
) -> list[str] | None:
    if name in path:
        return [*path[path.index(name) :], name]
    if name in finished or name not in steps:
        return None
    path.append(name)
    for each in steps[name].inputs:
        found = _cycle_from(each.lower(), steps, path, finished)
        if found is not None:
            # Report each cycle once.
            finished.update(path)
            return found
    path.pop()
    finished.add(name)
    return None
