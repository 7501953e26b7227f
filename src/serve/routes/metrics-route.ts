import { headerOf, urlOf } from '../../http/node-request.ts';
import { watchStream } from '../../http/sse-response.ts';
import {
  observeAll,
  observeProcess,
  observeRuns,
  observeStreams,
  openTelemetry,
  Registry,
  type StreamMeter,
} from '../../metrics/index.ts';
import type { RunObserver } from '../../task/types.ts';
import { httpRoute, type HttpRoute } from '../router.ts';
import { textResponse } from '../../http/text-response.ts';

/** The metrics of a server. */
export interface ServerMetrics extends Disposable {
  readonly observer: RunObserver;
  readonly route: HttpRoute;
  /**
   * Measures a response if it is a stream. Calls `onEnd` at the end of the stream, and immediately
   * for any other response.
   */
  watch(request: Request, response: Response, onEnd?: () => void): Response;
}

/**
 * Serves metrics of all runs and streams, and of the process, at `GET /metrics` in the text format
 * of Prometheus. With `telemetry`, runs are reported as OpenTelemetry spans, and the metrics of
 * runs and streams as OpenTelemetry metrics, too.
 */
export async function createMetrics({
  telemetry = false,
}: {
  readonly telemetry?: boolean | undefined;
}): Promise<ServerMetrics> {
  const registry = new Registry();
  const otel = telemetry ? await openTelemetry() : undefined;
  // After the step that may fail, so that a server that does not start leaves nothing running.
  const ownProcess = observeProcess();
  const meters = [registry, ...(otel ? [otel.meter] : [])];
  const observers = [
    ...meters.map((meter) => observeRuns(meter)),
    ...(otel ? [otel.observer] : []),
  ];
  const streams = meters.map((meter) => observeStreams(meter));

  return {
    observer: observers.length === 1 ? (observers[0] as RunObserver) : observeAll(observers),
    route: httpRoute('GET', '/metrics', () =>
      textResponse(registry.text() + ownProcess.text(), 200, {
        'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      }),
    ),
    watch(request, response, onEnd = () => {}) {
      let open: readonly StreamMeter[] = [];
      const streamed = watchStream(response, {
        events(count) {
          for (const stream of open) stream.events(count);
        },
        end() {
          for (const stream of open) stream.end();
          onEnd();
        },
      });
      if (!streamed) {
        onEnd();
        return response;
      }
      const protocol = urlOf(request).pathname.split('/', 2)[1] ?? '';
      const resumed = headerOf(request, 'last-event-id') !== null;
      open = streams.map((begin) => begin(protocol, resumed));
      return response;
    },
    [Symbol.dispose]: () => ownProcess[Symbol.dispose](),
  };
}
