"""Reads what sidecars told a collector, with the official schema of OTLP, and scrapes, with the official parser of
OpenMetrics.

Standard input is JSON: {"trace": id, "traces": [base64...], "metrics": [base64...], "scrapes": [text...]}. Prints the spans of
that trace, the names of what is measured, and of each scrape the samples, as JSON.
"""

import base64
import json
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def decoded(kind, texts):
    return [kind.FromString(base64.b64decode(text, validate=True)) for text in texts]


def values(attributes):
    """Attributes by name; a value is of one type."""
    named = {}
    for attribute in attributes:
        named[attribute.key] = getattr(attribute.value, attribute.value.WhichOneof("value"))
    return named


def spans_of(trace, bodies):
    for body in bodies:
        for resource in body.resource_spans:
            node = values(resource.resource.attributes)["service.instance.id"]
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                if span.trace_id.hex() != trace:
                    continue
                assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span.name
                yield {
                    "node": node,
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": Span.SpanKind.Name(span.kind),
                    "attributes": values(span.attributes),
                }


def samples_of(scrape):
    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
    ]


def main():
    given = json.load(sys.stdin)
    metrics = decoded(ExportMetricsServiceRequest, given["metrics"])
    measured = {
        metric.name
        for body in metrics
        for resource in body.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    told = {
        "spans": list(spans_of(given["trace"], decoded(ExportTraceServiceRequest, given["traces"]))),
        "measured": sorted(measured),
        "scrapes": [samples_of(scrape) for scrape in given["scrapes"]],
    }
    json.dump(told, sys.stdout)


main()
