/** The W3C trace context of a request, as the metadata of the turn that it brings; none without one. */
export function traceHeaders({ headers }: Request): Readonly<Record<string, string>> | undefined {
  const traceparent = headers.get('traceparent');
  if (traceparent === null) return undefined;
  const tracestate = headers.get('tracestate');
  return { traceparent, ...(tracestate !== null && { tracestate }) };
}
