// `npm run build`: brings `dist` up to date, and deletes output whose source is gone.
import { build } from './setup.mjs';

const { code } = await build({ quiet: false });
process.exitCode = code;
