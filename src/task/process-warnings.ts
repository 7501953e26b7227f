import type { Logger } from '../event/types.ts';
import type { JsonObject } from '../json.ts';

/** The default logger: warnings and errors become warnings of the process, which Node prints on stderr. */
export const processWarnings: Logger = {
  debug() {},
  info() {},
  warn: emit,
  error: emit,
};

function emit(message: string, data?: JsonObject): void {
  process.emitWarning(data ? `${message} ${JSON.stringify(data)}` : message, 'DuolaneWarning');
}

/**
 * Calls every listener. One that throws is reported and the others are still called: the commit that
 * it is notified of is durable, and must not look failed to its writer.
 */
export function notifyAll<T>(listeners: Iterable<(value: T) => void>, value: T): void {
  for (const listener of listeners) {
    try {
      listener(value);
    } catch (error) {
      emit(`a listener of the task store threw: ${String(error)}`);
    }
  }
}
