export type { Observer } from "../driver/observe.ts";
export type { CollectingService } from "./collector.ts";
export { readContext, type TraceContext } from "./context.ts";
export { traceHeaders } from "./current.ts";
export { type JsonLoggerOptions, jsonLogger } from "./log.ts";
export { PROMETHEUS_TYPE } from "./prometheus.ts";
export type { Attributes, AttributeValue } from "./span.ts";
export { type TelemetryOptions, telemetry } from "./telemetry.ts";
export { type Sender, traced, untraced } from "./traced.ts";
