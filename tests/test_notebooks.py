"""Every notebook in examples/ runs from top to bottom in a kernel of its own, and is stored without outputs."""

import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


class ThisInterpreter(KernelSpecManager):
    """The kernel of this interpreter, whatever kernels the machine has."""

    def get_kernel_spec(self, kernel_name):
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of the kernel's own client
def test_a_notebook_runs(file, tmp_path, monkeypatch):
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    kernel = client.create_kernel_manager()
    kernel.kernel_spec_manager = ThisInterpreter()
    client.execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in shown if output.output_type == "error"]
    html = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert sum("<img" in each for each in html) >= 2  # objects show themselves with a figure
    assert sum("image/png" in output.get("data", {}) for output in shown) >= 2  # and figures too


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_a_notebook_is_stored_without_outputs(file):
    notebook = nbformat.read(file, as_version=4)
    assert len(notebook.cells) > 5
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_there_is_a_notebook():
    assert NOTEBOOKS
