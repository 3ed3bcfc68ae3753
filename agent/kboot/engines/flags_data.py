"""Which flags and parser names does each released engine know? Made by tools/engine_flags.py.

sglang: 0.5.23
tokenspeed: 0.1.1
vllm: 0.26.0, 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0, 0.32.0, 0.33.0
"""

from __future__ import annotations

from collections.abc import Mapping

Words = tuple[tuple[str, str], ...]
"""(versions that know them, separated by blanks, or "all"; the words)."""

VERSIONS: Mapping[str, str] = {
    "sglang": "0.5.23",
    "tokenspeed": "0.1.1",
    "vllm": "0.26.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
}

FLAGS: Mapping[str, Words] = {
    "sglang": (
        (
            "all",
            """
            -radix-eviction-policy-explicitly-set -speculative-draft-quantization-explicitly-set
            -swa-full-tokens-ratio-explicitly-set abort-on-priority-when-disabled admin-api-key allow-auto-truncate
            allowed-media-domains api-key asr-max-buffer-seconds asr-max-concurrent-sessions attention-backend
            attention-context-parallel-size attention-data-parallel-size attn-cp-size attn-dp-size
            aux-hidden-state-capture base-gpu-id batch-notify-size bf16-gemm-backend boundary-reduction
            bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token c128-page-size
            chat-template checkpoint-engine-wait-weights-before-ready chunked-prefill-size completion-template
            config constrained-json-disable-any-whitespace constrained-json-max-whitespace-cnt
            constrained-json-whitespace-pattern context-bucket context-length cp-strategy cpu-offload-gb
            crash-dump-folder cuda-graph-backend-decode cuda-graph-backend-prefill cuda-graph-bs-decode
            cuda-graph-bs-prefill cuda-graph-config cuda-graph-max-bs-decode cuda-graph-max-bs-prefill
            cuda-graph-max-seq-len-prefill cuda-graph-prefill-max-context custom-weight-loader data-parallel-size
            dcp-comm-backend dcp-replicate-q-proj dcp-size debug-cuda-graph debug-tensor-dump-input-file
            debug-tensor-dump-layers debug-tensor-dump-output-folder decode-attention-backend
            decode-context-parallel-size decode-log-interval decoupled-spec-bind-endpoint
            decoupled-spec-connect-endpoints decoupled-spec-rank decoupled-spec-role decrypted-config-file
            decrypted-draft-config-file deepep-config deepep-dispatcher-output-dtype deepep-mode deepep-v2-mode
            default-chat-template-kwargs default-priority-value delete-ckpt-after-loading detokenizer-worker-num
            device disable-aiter-allreduce-fusion-in-decode disable-aiter-allreduce-fusion-in-prefill
            disable-attn-tp-gather disable-chunked-prefix-cache disable-cuda-graph disable-cuda-graph-padding
            disable-custom-all-reduce disable-decode-cuda-graph disable-fast-image-processor
            disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather disable-hybrid-swa-memory
            disable-outlines-disk-cache disable-overlap-schedule disable-prefill-cuda-graph
            disable-priority-preemption disable-radix-cache disable-shared-experts-fusion
            disable-tokenizer-batch-decode disaggregation-bootstrap-port disaggregation-decode-allocation-policy
            disaggregation-decode-enable-offload-kvcache disaggregation-decode-enable-radix-cache
            disaggregation-decode-extra-slots disaggregation-decode-host-receive-threshold
            disaggregation-decode-polling-interval disaggregation-decode-retraction-backup
            disaggregation-enable-kv-checksum disaggregation-ib-device disaggregation-mode
            disaggregation-transfer-backend dist-init-addr dist-timeout dllm-algorithm dllm-algorithm-config
            dllm-fdfo download-dir dp-size dsa-decode-backend dsa-paged-mqa-logits-backend dsa-prefill-backend
            dsa-topk-backend dsa-triton-union dsv4-attn-backend dsv4-prefill-backend dtype dwdp-size
            dynamic-batch-tokenizer-batch-size dynamic-batch-tokenizer-batch-timeout elastic-ep-backend
            elastic-ep-initial-size elastic-ep-join-mode elastic-ep-join-rank-offset elastic-ep-scale-timeout
            enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion enable-amd-monokernel
            enable-attn-tp-input-scattered enable-broadcast-mm-inputs-process enable-cache-report
            enable-cp-decode-attn-tp enable-cp-tp-group-sharing enable-cudagraph-gc enable-custom-logit-processor
            enable-decoder-swa-bounded-replay enable-deepseek-v4-fp4-indexer enable-dense-mlp-attn-tp
            enable-deterministic-inference enable-dp-attention enable-dp-attention-local-control-broadcast
            enable-dp-lm-head enable-draft-weights-cpu-backup enable-dsa-cache-layer-split enable-dsa-fused-indexer
            enable-dynamic-batch-tokenizer enable-dynamic-chunking enable-elastic-expert-backup
            enable-encoder-swa-bounded-replay enable-eplb enable-flashinfer-allreduce-fusion enable-flexkv
            enable-forward-pass-metrics enable-fp32-lm-head enable-fused-moe-sum-all-reduce
            enable-fused-qk-norm-rope enable-hicache enable-hierarchical-cache enable-hisparse
            enable-http-worker-reuseport enable-http2 enable-int8-mamba-checkpoint enable-kv-cache-sharding
            enable-layernorm-sp enable-layerwise-nvtx-marker enable-lean-attention enable-linear-replayssm
            enable-linear-replayssm-spec enable-linker-mla-dedup enable-lmcache enable-lora
            enable-lora-overlap-loading enable-mamba-cache-stochastic-rounding enable-megamoe-for-layernorm-sp
            enable-memory-saver enable-metrics enable-metrics-for-all-schedulers enable-mfu-metrics enable-mis
            enable-mixed-chunk enable-mm-global-cache enable-mscclpp enable-multi-layer-eagle enable-multimodal
            enable-nccl-nvls enable-nvidia-megakernel enable-p2p-check enable-page-major-kv-layout
            enable-paged-experts enable-pd-role-switch enable-pdmux enable-precise-embedding-interpolation
            enable-prefill-cp enable-prefill-delayer enable-prefix-mm-cache enable-priority-scheduling
            enable-profile-cuda-graph enable-quant-communications enable-request-time-stats-logging
            enable-response-store enable-return-aux-hidden-states enable-return-hidden-states
            enable-return-indexer-topk enable-return-routed-experts enable-scattered-sconv
            enable-session-radix-cache enable-shared-experts-attn-tp enable-single-batch-overlap enable-ssl-refresh
            enable-streaming-session enable-strict-thinking enable-symm-mem enable-tf32-matmul
            enable-tokenizer-batch-encode enable-torch-compile enable-torch-compile-debug-mode enable-torch-symm-mem
            enable-tp-lm-head-all-to-all enable-trace enable-two-batch-overlap enable-unified-cache-external-linker
            enable-unified-memory enable-w4a4-mxfp4-megamoe enable-waterfill enable-watermark
            enable-weights-cpu-backup encoder-bootstrap-port encoder-only encoder-register-urls
            encoder-transfer-backend encoder-urls enforce-disable-flashinfer-allreduce-fusion
            enforce-shared-experts-fusion engine-info-bootstrap-port ep ep-dispatch-algorithm ep-join-mode
            ep-join-rank-offset ep-num-redundant-experts ep-size eplb-algorithm
            eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
            expert-balancedness-report-mode expert-distribution-recorder-buffer-size
            expert-distribution-recorder-mode expert-parallel-size experts-shared-outer-loras export-metrics-to-file
            export-metrics-to-file-dir extra-metric-labels fastapi-root-path file-storage-path
            flashinfer-a2a-dispatch-type flashinfer-allreduce-fusion-backend flashinfer-autotune-skip-ops
            flashinfer-mla-disable-ragged flashinfer-mxfp4-moe-precision flexkv-config-file forward-hooks
            forward-pass-metrics-ipc-name forward-pass-metrics-worker-id fp4-gemm-backend fp4-gemm-runner-backend
            fp8-gemm-backend fp8-gemm-runner-backend fuseep-mode gated-launch-port gc-threshold
            gc-warning-threshold-secs generation-tokens-buckets gpu-id-step grammar-backend grpc-http-sidecar-port
            grpc-mode grpc-port grpc-response-timeout-secs grpc-worker-threads hf-chat-template-name
            hicache-host-memory-fraction hicache-host-memory-mode hicache-io-backend hicache-mem-layout
            hicache-ratio hicache-size hicache-storage-backend hicache-storage-backend-extra-config
            hicache-storage-prefetch-policy hicache-storage-prefetch-retry-max-attempts
            hicache-storage-prefetch-retry-poll-interval hicache-write-policy
            hierarchical-sparse-attention-extra-config hisparse-config host http2-initial-connection-window-size
            http2-max-concurrent-streams image-processor-backend incremental-streaming-output init-expert-location
            int8-mamba-ckpt-size is-embedding json-model-override-args kt-cpuinfer kt-max-deferred-experts-per-token
            kt-method kt-num-gpu-experts kt-threadpool-count kt-weight-path kv-cache-dtype kv-canary
            kv-canary-real-data kv-canary-sweep-interval kv-events-config language-model-only language-only
            limit-mm-data-per-request linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend
            linear-attn-verify-backend linear-replayssm-cache-len lmcache-config-file load-balance-method
            load-format load-publish-endpoint load-snapshot-publish-interval log-level log-level-http log-requests
            log-requests-format log-requests-level log-requests-target lora-backend lora-drain-wait-threshold
            lora-eviction-policy lora-paths lora-strict-loading lora-target-modules lora-use-virtual-experts
            mamba-backend mamba-cache-philox-rounds mamba-full-memory-ratio mamba-max-states-per-path
            mamba-radix-cache-strategy mamba-ssm-dtype mamba-track-interval max-ep-size max-loaded-loras
            max-lora-chunk-size max-lora-rank max-loras-per-batch max-mamba-cache-size max-prefill-tokens
            max-queued-requests max-running-requests max-total-tokens media-url-max-file-size-mb mem-fraction-static
            min-free-slots-delay mlx-enable-sampling mm-attention-backend mm-enable-dp-encoder mm-feature-transport
            mm-global-cache-backend mm-io-worker-num mm-preprocess-cache-size-mb mm-process-config
            mm-processor-worker-num model model-checksum model-config-parser model-impl model-loader-extra-config
            model-path modelexpress-config modelopt-checkpoint-restore-path modelopt-checkpoint-save-path
            modelopt-export-path modelopt-quant moe-a2a-backend moe-data-parallel-size moe-dense-tp-size moe-dp-size
            moe-runner-backend monokernel-backend mooncake-ib-device msprobe-dump-config nccl-init-addr nccl-port
            nnodes node-rank num-continuous-decode-steps num-reserved-decode-tokens numa-node offload-group-size
            offload-mode offload-num-in-group offload-prefetch-step optimistic-prefill-attempts otlp-service-name
            otlp-traces-endpoint page-size paged-experts-num-resident pdmux-config-path pipeline-parallel-size
            ple-offload-backend ple-offload-dir ple-offload-embedding port pp-async-batch-depth
            pp-max-micro-batch-size pp-size pre-warm-nccl preferred-sampling-params prefill-attention-backend
            prefill-decode-interval prefill-decode-interval-min-bs prefill-delayer-forward-passes-buckets
            prefill-delayer-max-delay-ms prefill-delayer-max-delay-passes prefill-delayer-queue-min-ratio
            prefill-delayer-token-usage-low-watermark prefill-delayer-wait-seconds-buckets
            prefill-kv-cache-dequant-dtype prefill-max-requests prefill-only-disable-kv-cache
            priority-scheduling-preemption-threshold prompt-tokens-buckets qsa-indexer-dtype quantization
            quantization-param-path quantize-and-serve radix-cache-backend radix-eviction-policy
            radix-eviction-policy-config random-seed reasoning-parser remote-instance-weight-loader-backend
            remote-instance-weight-loader-seed-instance-ip remote-instance-weight-loader-seed-instance-service-port
            remote-instance-weight-loader-send-weights-group-ports
            remote-instance-weight-loader-start-seed-via-transfer-engine retraction-policy
            return-aux-hidden-state-layer-ids return-hidden-states-mode return-input-ids return-output-ids revision
            rl-on-policy-target rl-quant-profile sampling-backend sampling-defaults sampling-mask-max-tokens
            schedule-conservativeness schedule-low-priority-values-first schedule-policy scheduler-recv-interval
            served-model-name shared-experts-tp-size show-time-cost sidecar sidecar-args skip-server-warmup
            skip-tokenizer-init sleep-on-idle sm-group-num smg-grpc-mode smg-http-sidecar-port soft-watchdog-timeout
            spec-trace-dir speculative-accept-threshold-acc speculative-accept-threshold-single speculative-adaptive
            speculative-adaptive-config speculative-algorithm speculative-attention-mode
            speculative-boundary-reduction speculative-dflash-block-size speculative-domino-candidate-pool-size
            speculative-draft-attention-backend speculative-draft-kv-cache-dtype speculative-draft-load-format
            speculative-draft-model speculative-draft-model-path speculative-draft-model-quantization
            speculative-draft-model-revision speculative-draft-sink-size speculative-draft-window-size
            speculative-dsa-topk-backend speculative-dspark-align-verify-tokens-to-graph-tier
            speculative-dspark-block-size speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path
            speculative-eagle-topk speculative-enable-w4a4-mxfp4-megamoe speculative-moe-a2a-backend
            speculative-moe-runner-backend speculative-ngram-capacity speculative-ngram-external-corpus-max-tokens
            speculative-ngram-external-corpus-path speculative-ngram-external-sam-budget
            speculative-ngram-match-type speculative-ngram-max-bfs-breadth speculative-ngram-max-trie-depth
            speculative-ngram-min-bfs-breadth speculative-num-draft-tokens speculative-num-steps
            speculative-token-map speculative-use-block-verification speculative-use-rejection-sampling ssl-ca-certs
            ssl-certfile ssl-keyfile ssl-keyfile-password startup-weight-load-mode stream-interval
            stream-response-default-include-usage strip-thinking-cache swa-full-tokens-ratio swa-prefix-tails
            tbo-token-distribution-threshold tensor-parallel-size tokenizer-backend
            tokenizer-metrics-allowed-custom-labels tokenizer-metrics-custom-labels-header tokenizer-mode
            tokenizer-path tokenizer-worker-num tool-call-parser tool-server torch-compile-max-bs tp-size
            trace-modules triton-attention-num-kv-splits triton-attention-reduce-in-fp32
            triton-attention-split-tile-size trust-mm-content-hashes trust-remote-code trust-request-chat-template
            unified-cache-external-linker-backend unified-cache-external-linker-config uno-lora-path use-ray
            uses-mamba-radix-cache uvicorn-access-log-exclude-prefixes warmups watchdog-timeout watermark-config
            watermark-context-window watermark-default-enabled watermark-enforce-all watermark-key watermark-key-b
            watermark-max-probability watermark-mixing-probability weight-cache-mode weight-cache-socket
            weight-cache-timeout weight-loader-disable-mmap weight-loader-drop-cache-after-load
            weight-loader-prefetch-checkpoints weight-loader-prefetch-num-threads weight-version
        """,
        ),
    ),
    "tokenspeed": (
        (
            "all",
            """
            all2all-backend app-key attention-backend attention-config.use-fp4-indexer-cache
            attention-config.use-trtllm-ragged-deepseek-prefill attention-config.use_trtllm_ragged_deepseek_prefill
            attention-use-fp4-indexer-cache attention_config.use_fp4_indexer_cache
            attention_config.use_trtllm_ragged_deepseek_prefill attn-head-tp-size attn-tp-size base-gpu-id
            batch-invariant-collectives block-size chat-template chunked-prefill-size comm-fusion-max-num-tokens
            control-port cudagraph-capture-sizes data-parallel-address data-parallel-rpc-port data-parallel-size
            decode-context-parallel-size decode-log-interval deepep-mode deepseek-v4-indexer-prefill-max-logits-mb
            deepseek-v4-mega-moe-max-num-tokens deepseek-v4-prefill-chunk-size dense-gemm-backend dense-tp-size
            device disable-any-whitespace disable-autotune disable-capturable-grammar disable-circuit-breaker
            disable-cuda-graph-padding disable-cudagraph-memory-reserve disable-flashinfer-autotune
            disable-flashinfer-cutlass-moe-fp4-allgather disable-kda-prefill-graph disable-kvstore
            disable-load-monitoring disable-nccl-nvls disable-overlap-schedule disable-pdl disable-prefill-graph
            disable-prefix-caching disable-replay-ssm disable-retries disable-sampling-tp-sync disable-symm-mem
            disable-tf32 disable-weight-loader-prefetch-checkpoints disaggregation-bootstrap-port
            disaggregation-ib-device disaggregation-layerwise-interval disaggregation-mode
            disaggregation-transfer-backend dist-init-addr distributed-timeout-seconds download-dir dp-sampling
            dp-sampling-min-bs draft-model-path-use-base draft-moe-backend drafter-attention-backend drain-timeout
            dsa-slot-order dtype eagle3-layers-to-capture enable-allreduce-fusion enable-cudagraph-gc enable-eplb
            enable-expert-parallel enable-log-request-stats enable-log-requests enable-memory-saver enable-metrics
            enable-mixed-batch enable-nan-detection enable-nvtx enable-output-logprobs enable-prefix-caching
            enable-replay-ssm enable-speculative-sampling enforce-eager engine-startup-timeout engram-host-table
            engram-host-table-dir engram-host-table-layout ep-dispatch-algorithm ep-num-redundant-experts ep-size
            eplb-algorithm eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
            expert-distribution-recorder-mode expert-parallel-size ext-yaml force-deterministic-rsag
            gateway-startup-timeout gpu-id-step gpu-memory-utilization grammar-backend grammar-compile-max-retries
            grammar-compile-timeout-secs headless help hf-overrides host init-expert-location
            input-logprob-chunk-tokens kda-backend kv-cache-dtype kv-cache-quant-method kv-events-config
            kvstore-io-backend kvstore-ratio kvstore-size kvstore-storage-backend
            kvstore-storage-backend-extra-config language-model-only layer-boundary-norm lm-head-tp-size
            load-balance-method load-format load-watch-interval log-level log-requests-level logprob-order
            low-latency-max-num-tokens-per-gpu mamba-ssm-dtype max-cudagraph-capture-size max-model-len max-num-seqs
            max-prefill-tokens max-total-tokens metrics-reporters mla-chunk-multiplier mla-disable-ragged
            mla-lora-scale mm-attention-backend mm-encoder-tp-mode model model-path model-update-config
            model-update-draft-weights model-update-engine-type model-update-sdk-module moe-backend
            moe-combine-order moe-mxfp4-fp8-activation moe-tp-size nnodes no- node-rank nprocs-per-node numerics
            pdlb-url pipeline-parallel-size policy port pp-layer-partition preferred-sampling-params
            prefill-context-parallel-size prefill-graph-capture-batch-sizes prefill-graph-capture-sizes
            prefill-graph-capture-token-sizes prefill-graph-max-tokens prefix-granularity prometheus-port
            quantization quantization-param-path reasoning-parser revision rl-control-api-key rl-control-host
            rl-control-port router-topk sampling-backend sampling-stream seed served-model-name
            skip-softmax-threshold skip-tokenizer-init spec-reject-draft-prob-threshold speculative-algorithm
            speculative-config speculative-draft-model-path speculative-draft-model-quantization
            speculative-eagle-topk speculative-num-draft-tokens speculative-num-steps speculative_config
            stream-interval stream-output tensor-parallel-size tokenizer tokenizer-cache-enable-l0
            tokenizer-cache-enable-l1 tokenizer-mode tool-call-parser tp tp-batch-invariant trust-remote-code
            weight-loader-prefetch-num-threads weight-version world-size yarn-ramp-mask-device zmq-engine-index
            zmq-msgpack
        """,
        ),
    ),
    "vllm": (
        (
            "all",
            """
            -ac -asc -cc -dc -dcp -dp -dpa -dpb -dpe -dph -dpl -dpm -dpn -dpp -dpr -ep -n -pcp -pp -q -r -sc -tp
            additional-config aggregate-engine-logging all2all-backend allow-credentials
            allow-deprecated-quantization allowed-headers allowed-local-media-path allowed-media-domains
            allowed-methods allowed-origins api-key api-server-count async-scheduling attention-backend
            attention-config block-size chat-template chat-template-content-format code-revision
            collect-detailed-traces compilation-config config config-format convert cp-kv-cache-interleave-size
            cpu-distributed-timeout-seconds cpu-offload-gb cpu-offload-params cudagraph-capture-sizes
            cudagraph-metrics data-parallel-address data-parallel-backend data-parallel-external-lb
            data-parallel-hybrid-lb data-parallel-multi-port-external-lb data-parallel-rank data-parallel-rpc-port
            data-parallel-size data-parallel-size-local data-parallel-start-rank data-parallel-supervisor-port
            dbo-decode-token-threshold dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size
            decode-context-parallel-size default-chat-template-kwargs default-mm-loras device-ids diffusion-config
            disable-access-log-for-endpoints disable-cascade-attn disable-chunked-mm-input disable-custom-all-reduce
            disable-fastapi-docs disable-hybrid-kv-cache-manager disable-log-stats
            disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log
            distributed-executor-backend distributed-timeout-seconds download-dir
            dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dtype
            ec-transfer-config enable-auto-tool-choice enable-chunked-prefill enable-cumem-allocator enable-dbo
            enable-elastic-ep enable-ep-weight-filter enable-eplb enable-expert-parallel
            enable-flash-late-interaction enable-flashinfer-autotune enable-force-include-usage
            enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs enable-log-requests
            enable-logging-iteration-details enable-lora enable-mamba-cache-stochastic-rounding enable-mfu-metrics
            enable-mixed-moe-lora-format enable-mm-embeds enable-moe-shared-loras enable-offline-docs
            enable-per-request-metrics enable-prefix-caching enable-prompt-embeds enable-prompt-tokens-details
            enable-request-id-headers enable-return-routed-experts enable-server-load-tracking enable-sleep-mode
            enable-ssl-refresh enable-tokenizer-info-endpoint enable-tower-connector-lora enforce-eager eplb-config
            exclude-tools-when-tool-choice-none expert-placement-strategy fail-on-environ-validation
            fingerprint-mode fingerprint-value fully-sharded-loras gdn-prefill-backend generation-config
            gpu-memory-utilization grpc h11-max-header-count h11-max-incomplete-event-size headless hf-config-path
            hf-overrides hf-token host ignore-patterns interleave-mm-strings io-processor-plugin ir-op-priority
            jit-monitor-mode jit-monitor-verbose kernel-config kv-cache-dtype kv-cache-dtype-skip-layers
            kv-cache-memory-bytes kv-cache-metrics kv-cache-metrics-sample kv-events-config kv-offloading-backend
            kv-offloading-size kv-sharing-fast-prefill kv-transfer-config language-model-only limit-mm-per-prompt
            linear-backend load-format log-config-file log-error-stack logits-processors logprobs-mode
            long-prefill-token-threshold lora-dtype lora-modules lora-target-modules mamba-backend mamba-block-size
            mamba-cache-dtype mamba-cache-mode mamba-cache-philox-rounds mamba-ssm-cache-dtype master-addr
            master-port max-cpu-loras max-cudagraph-capture-size max-log-len max-logprobs max-lora-rank max-loras
            max-model-len max-num-batched-tokens max-num-scheduled-tokens max-num-seqs max-parallel-loading-workers
            media-io-kwargs middleware mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path
            mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path mm-encoder-only mm-encoder-tp-mode
            mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-cache-type mm-processor-kwargs
            mm-shm-cache-max-object-size-mb mm-tensor-ipc model model-class-overrides model-impl
            model-loader-extra-config moe-backend nnodes node-rank num-gpu-blocks-override numa-bind numa-bind-cpus
            numa-bind-nodes offload-backend offload-group-size offload-num-in-group offload-params
            offload-prefetch-step optimization-level otlp-traces-endpoint override-generation-config
            performance-mode pipeline-parallel-size pooler-config port prefill-context-parallel-size
            prefill-schedule-interval prefix-caching-hash-algo prefix-match-unit profiler-config
            pt-load-map-location quantization quantization-config ray-workers-use-nsight reasoning-config
            reasoning-parser reasoning-parser-plugin renderer-num-workers response-role return-tokens-as-token-ids
            revision root-path runner safetensors-load-strategy safetensors-prefetch-block-size
            safetensors-prefetch-num-threads scheduler-cls scheduler-reserve-full-isl scheduling-policy seed
            served-model-name show-hidden-metrics-for-version shutdown-timeout skip-mm-profiling skip-tokenizer-init
            spec-method spec-model spec-tokens specialize-active-lora speculative-config ssl-ca-certs ssl-cert-reqs
            ssl-certfile ssl-ciphers ssl-keyfile stream-interval structured-outputs-config tensor-parallel-size
            tokenizer tokenizer-mode tokenizer-revision tokens-only tool-call-parser tool-parser-plugin tool-server
            trust-remote-code trust-request-chat-template ubatch-size uds use-fp64-gumbel use-tqdm-on-load
            uvicorn-log-level video-pruning-rate watermark weight-transfer-config worker-cls worker-extension-cls
        """,
        ),
        (
            "0.26.0",
            """
            max-long-partial-prefills max-num-partial-prefills
        """,
        ),
        (
            "0.26.0 0.27.1",
            """
            calculate-kv-scales override-attention-dtype
        """,
        ),
        (
            "0.26.0 0.27.1 0.28.0 0.29.0",
            """
            enable-bf16x3-router-gemm
        """,
        ),
        (
            "0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            cohere-format cohere-is-reasoning-model enable-fault-tolerance fault-tolerance-config
            kda-prefill-backend mamba-ssu-algorithm mm-hasher-algorithm replayssm-buffer-len use-replayssm
            video-pruning-method
        """,
        ),
        (
            "0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            ec-manager-config mm-device-do-normalize mm-processor-device return-sampling-mask
        """,
        ),
        (
            "0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            dcp-q-replicate enable-batch-sharded-sampling enable-trace-replay max-num-queued-reqs
            max-num-queued-tokens per-request-spec-decode-metrics prefix-cache-retention-interval
            sse-keep-alive-interval
        """,
        ),
        (
            "0.30.0",
            """
            enable-mamba-fine-grained-prefix-cache
        """,
        ),
        (
            "0.30.0 0.31.0 0.32.0 0.33.0",
            """
            dp-sync-interval elastic-ep-max-dp-size enable-nccl-comm-suspend enable-scale-out engram-config
            kda-decode-backend sparse-indexer-topk-backend watermark-config
        """,
        ),
        (
            "0.31.0 0.32.0 0.33.0",
            """
            anthropic-disabled-thinking-effort aux-output-config device-memory-utilization
            enable-mamba-shared-prefix-checkpoint log-level logging-config long-prefill-token-threshold-adaptive
            max-lora-cls-labels max-num-active-seqs sleep-preserve-parameter-names swa-bounded-replay
            tool-strict-level trust-request-mm-kwargs
        """,
        ),
        (
            "0.32.0 0.33.0",
            """
            custom-histogram-buckets enable-hc-sp enable-shm-tensor-arena grpc-port sleep-mode-offload-cudagraph
        """,
        ),
        (
            "0.33.0",
            """
            monokernel reasoning-effort-map sleep-mode-backend watchdog-config
        """,
        ),
    ),
}

TOOL_PARSERS: Mapping[str, Words] = {
    "sglang": (
        (
            "all",
            """
            apertus2509 auto beam cohere_command4 deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 dots
            gemma4 gigachat3 gigachat35 glm glm45 glm47 gpt-oss hermes hunyuan inkling interns1 iquest_q1 k2_horizon
            kimi_k2 kimi_k3 lfm2 ling3 llama3 mimo minicpm5 minimax-m2 minimax-m3 mistral muse nanbeige poolside_v1
            pythonic qwen qwen25 qwen3_coder response_template spark25 step3 step3p5 trinity
        """,
        ),
    ),
    "tokenspeed": (),
    "vllm": (
        (
            "all",
            """
            apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 ernie45
            functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hunyuan_a13b hy_v3
            inkling internlm jamba kimi_k2 lfm2 llama3_json llama4_json llama4_pythonic longcat mimo minicpm5
            minimax_m2 minimax_m3 mistral olmo3 openai phi4_mini_json poolside_v1 pythonic qwen3_coder qwen3_xml
            seed_oss step3 step3p5 xlam
        """,
        ),
        (
            "0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            kimi_k3
        """,
        ),
        (
            "0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            dots ling3 muse_glimmer
        """,
        ),
        (
            "0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            hy_v4
        """,
        ),
        (
            "0.30.0 0.31.0 0.32.0 0.33.0",
            """
            deepseek_v41 k2_horizon
        """,
        ),
        (
            "0.32.0 0.33.0",
            """
            hf plamo3 qwen3_json
        """,
        ),
        (
            "0.33.0",
            """
            beam muse musespark1x step5
        """,
        ),
    ),
}

REASONING_PARSERS: Mapping[str, Words] = {
    "sglang": (
        (
            "all",
            """
            apertus2509 auto beam cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 dots gemma4
            gigachat35 glm45 gpt-oss granite_thinking_parser hunyuan inkling interns1 iquest_q1 k2_horizon kimi
            kimi_k2 kimi_k3 ling3 mimo minimax minimax-append-think minimax-m3 mistral muse nanbeige nemotron_3
            poolside_v1 qwen3 qwen3-thinking response_template step3 step3p5
        """,
        ),
    ),
    "tokenspeed": (),
    "vllm": (
        (
            "all",
            """
            cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 ernie45 gemma4 glm45 glm47 granite
            holo2 hunyuan_a13b hy_v3 inkling kimi_k2 mimo minimax_m2 minimax_m2_append_think minimax_m3 mistral
            nemotron_v3 olmo3 openai_gptoss poolside_v1 qwen3 seed_oss step3 step3p5
        """,
        ),
        (
            "0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            kimi_k3
        """,
        ),
        (
            "0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            ling3 muse_glimmer
        """,
        ),
        (
            "0.29.0 0.30.0 0.31.0 0.32.0 0.33.0",
            """
            hy_v4
        """,
        ),
        (
            "0.30.0 0.31.0 0.32.0 0.33.0",
            """
            deepseek_v41 k2_horizon
        """,
        ),
        (
            "0.31.0 0.32.0 0.33.0",
            """
            granite_thinking_parser
        """,
        ),
        (
            "0.32.0 0.33.0",
            """
            hf minicpmv plamo3
        """,
        ),
        (
            "0.33.0",
            """
            beam muse musespark1x step5
        """,
        ),
    ),
}
