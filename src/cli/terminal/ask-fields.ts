import { parseDecision } from '../../event/text/parse-decision.ts';
import { asArray, asObject, type JsonObject } from '../../json.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';

/** Reads one line of the user; undefined at the end of the input. */
export type Read = (prompt: string) => Promise<string | undefined>;

/**
 * Asks for the fields of a form, one line each. An invalid line is asked for again, and an empty
 * one omits an optional field. Returns undefined at the end of the input, which cancels the form.
 */
export async function askFields(schema: JsonObject, read: Read): Promise<JsonObject | undefined> {
  const properties = asObject(schema['properties']);
  const required = asArray(schema['required']);
  const content: [string, unknown][] = [];
  for (const [name, property] of Object.entries(properties)) {
    const field = asObject(property);
    const optional = !required.includes(name);
    for (let again = ''; ;) {
      const line = await read(`${again}${promptOf(name, field, optional)}`);
      if (line === undefined) return undefined;
      const text = line.trim();
      if (text === '' && optional) break;
      const value = valueOf(field, text);
      if (value !== undefined) {
        content.push([name, value]);
        break;
      }
      again = 'Invalid value. ';
    }
  }
  return Object.fromEntries(content);
}

function promptOf(
  name: string,
  { title, type, enum: choices }: JsonObject,
  optional: boolean,
): string {
  const kind = Array.isArray(choices)
    ? choices.join(' | ')
    : type === 'boolean'
      ? 'yes | no'
      : type;
  const hint = [kind, optional && 'optional'].filter(Boolean).join(', ');
  return stripControlCharacters(
    `${typeof title === 'string' ? title : name}${hint ? ` (${hint})` : ''} > `,
  );
}

/** The value of a line; undefined if it is invalid for the field. */
function valueOf({ type, enum: choices }: JsonObject, text: string): unknown {
  if (Array.isArray(choices)) return choices.find((choice) => String(choice) === text);
  switch (type) {
    case 'boolean': {
      const decision = parseDecision(text);
      return decision && decision === 'accept';
    }
    case 'integer':
    case 'number': {
      const value = text === '' ? Number.NaN : Number(text);
      return Number.isFinite(value) && (type === 'number' || Number.isInteger(value))
        ? value
        : undefined;
    }
    case 'array':
    case 'object':
      return json(text);
    default:
      return text === '' ? undefined : text;
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON, so the value is invalid and is asked for again.
    return undefined;
  }
}
