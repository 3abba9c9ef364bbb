import { inputCodec, outputCodec } from "../../../runtime/src/codec/index.ts";

/** Numbers of the items that the hot loops of the benchmarks write and read themselves. */
export const RECEIVED = inputCodec.kindOf("Received");
export const STREAM_DATA_IN = inputCodec.kindOf("StreamData");
export const CANCEL = inputCodec.kindOf("Cancel");
export const TRANSMIT = outputCodec.kindOf("Transmit");
export const STREAM_DATA_OUT = outputCodec.kindOf("StreamData");
export const WAKE = outputCodec.kindOf("Wake");
