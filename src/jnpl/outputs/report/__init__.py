"""The page report.html of a run. Never imports torch.

- `page`: the whole page from a run folder
- `reading`: the files of a run folder
- `charts`, `page_tables`: the contents of the charts and tables on the page
- `text`: numbers and texts as the page prints them
- `thumbs`: small pictures of samples
"""
