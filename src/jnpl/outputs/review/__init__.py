"""The review: a local web page on which a person decides about suspects. Needs the extra `review`.

- `decisions`: the decisions of a run in review.sqlite, with undo
- `reviewed_labels`: what decisions mean for the labels of the data
- `ranking`: the samples in the order of their label quality, filters and pages of them
- `samples`: what the page shows of a sample: picture, text or row, candidates, similar samples
- `estimates`: precision among the decided suspects, and how many wrong labels are left
- `retraining`: a new ranking from a head trained with the decisions
- `review_session`: one review in progress: the answers to all requests of the page
- `request_checks`: which requests the server accepts
- `server`: the web server
- `page/`: HTML, CSS and JavaScript of the page
"""
