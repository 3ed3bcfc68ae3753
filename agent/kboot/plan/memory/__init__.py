"""What does a model take of every GPU: tensors by purpose, bytes on each rank, KV cache, reserve?"""
