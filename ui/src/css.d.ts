// Style sheets are imported for their effect; vite puts them into one file.

declare module "*.css";
