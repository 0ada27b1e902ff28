"""Pages as text; what a browser makes of them is in tests/browser."""

import pytest

from tinyseq.attention import pages


@pytest.mark.parametrize("name", ["attention", "trace"])
def test_neither_a_title_nor_a_text_can_end_the_element_that_it_stands_in(name):
    page = pages.render(name, "</title><b>", {"source": "</script><b>"})
    assert "<title>&lt;/title&gt;&lt;b&gt;</title>" in page
    assert page.count("</script>") == 2
    assert "\\u003c/script>\\u003cb>" in page
