"""The list of requests, the screens of one request, of a question and of a batch, and the forms for terms."""
