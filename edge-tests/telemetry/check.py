"""Reads what a node tells with the official schema of OTLP and the official parser of Prometheus.

Standard input is JSON: {"traces": [body...], "metrics": [body...], "prometheus": text}. What is not in the schema is an
error. Prints what was understood, as JSON.
"""

import base64
import json
import sys

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_bytes(value):
    """OTLP writes ids in hex where JSON of protobuf has base64."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: identifier(name, item) if name in IDS else with_bytes(item) for name, item in value.items()}


def identifier(name, text):
    raw = bytes.fromhex(text)
    assert len(raw) == IDS[name], f"{name} has {len(raw)} bytes"
    return base64.b64encode(raw).decode()


def main():
    given = json.load(sys.stdin)
    traces = [ParseDict(with_bytes(body), ExportTraceServiceRequest()) for body in given["traces"]]
    metrics = [ParseDict(with_bytes(body), ExportMetricsServiceRequest()) for body in given["metrics"]]
    spans = [
        span
        for body in traces
        for resource in body.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    for span in spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span.name
    points = [
        (metric.name, point)
        for body in metrics
        for resource in body.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.WhichOneof("data") == "histogram"
        for point in metric.histogram.data_points
    ]
    for name, point in points:
        assert sum(point.bucket_counts) == point.count, name
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1, name
    families = list(text_string_to_metric_families(given["prometheus"]))
    print(
        json.dumps(
            {
                "spans": sorted(span.name for span in spans),
                "histograms": sorted({name for name, _ in points}),
                "families": {family.name: family.type for family in families},
            }
        )
    )


main()
