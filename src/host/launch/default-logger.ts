import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';

const warn = (message: string, data?: JsonObject): void =>
  process.emitWarning(data ? `${message} ${JSON.stringify(data)}` : message, { code: 'DUOLANE' });

/** Without a logger of the app: warnings go where Node's own go, the rest nowhere. */
export const defaultLogger: Logger = { debug: () => {}, info: () => {}, warn, error: warn };

/**
 * The logger of the app, made safe to call from the read loop: if it throws, that is reported once,
 * and from then on everything goes to `defaultLogger`.
 */
export function safeLogger(given: Logger | undefined): Logger {
  let logger = given ?? defaultLogger;
  const call =
    (level: keyof Logger) =>
    (message: string, data?: JsonObject): void => {
      try {
        logger[level](message, data);
      } catch (error) {
        if (logger === defaultLogger) return; // process.emitWarning throws with --throw-deprecation only
        logger = defaultLogger;
        logger.error('the logger threw and is no longer used', { error: String(error) });
        logger[level](message, data);
      }
    };
  return { debug: call('debug'), info: call('info'), warn: call('warn'), error: call('error') };
}
