"""Sentence embedding: the MiniLM encoder from torch.export to the C runtime, with dynamic batch and length."""
import numpy
import torch
from torch.export import Dim

import pretrained
import report


def main():
    options = report.options(__doc__)
    torch.set_num_threads(options.threads)
    print("Sentence embedding: MiniLM, 6 layers, 22.7 million weights", flush=True)
    encoder = pretrained.sentence_encoder()
    everything = pretrained.tokenize(pretrained.SENTENCES)

    batch, length = Dim("batch", min=1, max=1024), Dim("length", min=1, max=512)
    program = report.exported(options.out / "minilm.pt2", encoder, tuple(map(torch.from_numpy, everything)),
                              ({0: batch, 1: length}, {0: batch, 1: length}), __file__, pretrained.__file__)
    artifact = report.compiled(options, program)

    one_by_one = [pretrained.tokenize([sentence]) for sentence in pretrained.SENTENCES]
    model = report.compare(options, "minilm, one sentence", artifact, encoder, one_by_one)
    model.close()
    model = report.compare(options, "minilm, all sentences in one batch", artifact, encoder, [everything])

    vectors, = model.run(*everything)
    model.close()
    likeness = vectors @ vectors.T
    pairs = sorted(((likeness[i, j], i, j) for i in range(len(vectors)) for j in range(i)), reverse=True)
    print("\n  the most similar sentences:")
    for value, i, j in pairs[:5]:
        print(f"    {value:.3f}  {pretrained.SENTENCES[j]}\n           {pretrained.SENTENCES[i]}")
    assert numpy.allclose(numpy.linalg.norm(vectors, axis=1), 1, atol=1e-5)


if __name__ == "__main__":
    main()
