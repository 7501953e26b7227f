import { asString, type JsonObject } from '../../json.ts';
import type { ToolEvent } from '../types.ts';

/** Decodes the parameters of `notifications/progress`. */
export const toProgress = ({ progress, total, message }: JsonObject): ToolEvent => ({
  type: 'progress',
  progress: Number(progress),
  ...(typeof total === 'number' && { total }),
  ...(typeof message === 'string' && { message }),
});

/** Decodes the parameters of `notifications/message`. */
export const toLogLine = ({ level, data, logger }: JsonObject): ToolEvent => ({
  type: 'log',
  level: asString(level, 'info'),
  data,
  ...(typeof logger === 'string' && { logger }),
});
