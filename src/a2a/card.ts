import { createHash } from 'node:crypto';
import type { JsonObject } from '../json.ts';

/** What a person writes about an agent; the rest of the card follows from the server. */
export interface AgentDescription {
  readonly name: string;
  readonly description: string;
  readonly version?: string;
  readonly skills?: readonly Skill[];
  readonly inputModes?: readonly string[];
  readonly outputModes?: readonly string[];
  readonly provider?: JsonObject;
  readonly documentationUrl?: string;
}

export interface Skill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags?: readonly string[];
  readonly examples?: readonly string[];
}

/** The card in the spelling of 1.0; with `hybrid`, the members of 0.3 beside it. */
export function agentCard(
  description: AgentDescription,
  url: string,
  { hybrid = true }: { readonly hybrid?: boolean } = {},
): JsonObject {
  const {
    name,
    description: text,
    version = '1.0.0',
    skills = [],
    provider,
    documentationUrl,
  } = description;
  const modes = ['text/plain', 'text/markdown', 'application/json'];
  const shown = skills.length > 0 ? skills : [{ id: 'chat', name, description: text }];
  return {
    name,
    description: text,
    version,
    supportedInterfaces: ['1.0', '0.3'].map((protocolVersion) => ({
      url,
      protocolBinding: 'JSONRPC',
      protocolVersion,
    })),
    capabilities: { streaming: true, pushNotifications: false },
    defaultInputModes: description.inputModes ?? modes,
    defaultOutputModes: description.outputModes ?? modes,
    skills: shown.map((skill) => ({ ...skill, tags: skill.tags ?? [] })),
    ...(provider && { provider }),
    ...(documentationUrl !== undefined && { documentationUrl }),
    ...(hybrid && {
      protocolVersion: '0.3.0',
      url,
      preferredTransport: 'JSONRPC',
      additionalInterfaces: [{ url, transport: 'JSONRPC' }],
      supportsAuthenticatedExtendedCard: false,
    }),
  };
}

/** The card's response, with what caches need; 304 when the caller has it already. */
export function cardResponse(card: JsonObject, request: Request, since: Date): Response {
  const body = JSON.stringify(card);
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'public, max-age=60',
    'last-modified': since.toUTCString(),
    etag,
    vary: 'A2A-Version',
  };
  if (request.headers.get('if-none-match') === etag)
    return new Response(null, { status: 304, headers });
  return new Response(body, { headers });
}
