"""The paper's figures and tables: one file each, listed in `items`.

- `fig1`, `fig2`, `fig3`, `fig4`, `fig5`, `fig6`, `table1`, `table2`: what the paper
  claims, the cells, the drawing or text, and the rule for the verdict.
- `beyond`: tables that are not in the paper: human labels, a linear head, when PL+ begins, class
  weights, NL+ with 100 classes.
- `item`: what an item is; `runs`: results of its cells by what the paper calls them.
- `paper`: the numbers that the paper prints; `scales`: data and sizes.
- `captions`, `output`: captions, the output folder with index.html.
- `drawing`, `entries`: what several items share.
- `cost`: GPU hours of the paper's scale, estimated.
"""
