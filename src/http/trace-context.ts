import { headerOf } from './node-request.ts';

/**
 * The W3C trace context of a request, as metadata of its turn; `undefined` if the request has none.
 */
export function traceContext(request: Request): Readonly<Record<string, string>> | undefined {
  const traceparent = headerOf(request, 'traceparent');
  if (traceparent === null) return undefined;
  const tracestate = headerOf(request, 'tracestate');
  return { traceparent, ...(tracestate !== null && { tracestate }) };
}
