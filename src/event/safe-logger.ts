import type { JsonObject } from '../json.ts';
import type { Logger } from './types.ts';

/**
 * Makes the logger of the app safe to call from anywhere. If it throws, that is logged once, and
 * from then on everything goes to `fallback`. A log line must not change what the program does.
 */
export function safeLogger(given: Logger | undefined, fallback: Logger): Logger {
  let logger = given ?? fallback;
  const call =
    (level: keyof Logger) =>
    (message: string, data?: JsonObject): void => {
      try {
        logger[level](message, data);
      } catch (error) {
        if (logger === fallback) return; // process.emitWarning throws with --throw-deprecation only
        logger = fallback;
        logger.error('the logger threw and is no longer used', { error: String(error) });
        logger[level](message, data);
      }
    };
  return { debug: call('debug'), info: call('info'), warn: call('warn'), error: call('error') };
}
