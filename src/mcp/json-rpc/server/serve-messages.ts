import { type ServedMessages, serveEndpoint } from '../../relay/serve-endpoint.ts';
import type { MessageTransport, OfferMessagesOptions, ToolSource } from '../../types.ts';
import { offerMessages } from './offer-messages.ts';

/**
 * Serves a source to the client at the peer of a transport, until the transport ends or this is
 * disposed, which closes the transport. The source is shared and stays open.
 */
export const serveMessages = (
  source: ToolSource,
  transport: MessageTransport,
  options?: OfferMessagesOptions,
): ServedMessages => serveEndpoint(offerMessages(source, options), transport);
